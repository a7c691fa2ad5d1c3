// Questions that everyone asks of a Program: arguments by name, common scopes, execution order, identity.
#include "schema/program.h"

#include "schema/files/files.h"
#include "schema/program_walk.h"

namespace whence {

const Argument* Node::find(std::string_view name) const {
  for (const NamedArgument& argument : arguments) {
    if (argument.name == name) return &argument.value;
  }
  return nullptr;
}

std::string qualified(const Node& node) {
  return node.overload.empty() ? node.target : node.target + "." + node.overload;
}

std::string source_place(const Frame& frame) {
  if (frame.file.empty()) return frame.function;
  return base_name(frame.file) + ":" + std::to_string(frame.line) + (frame.function.empty() ? "" : " ") +
         frame.function;
}

Size length_of(const std::vector<Symbol>& symbols, const Dim& dim) {
  if (dim.is_static()) return dim.size;
  if (!dim.dynamic || dim.symbol == none_id) return Size::unknown();
  const Symbol& symbol = symbols[static_cast<std::size_t>(dim.symbol)];
  return symbol.kind == SymbolKind::derived ? symbol.size : Size::symbol(dim.symbol);
}

void name_derived(std::vector<Symbol>& symbols, SymbolId id) {
  Symbol& symbol = symbols[static_cast<std::size_t>(id)];
  symbol.name = text_of(symbol.size, [&](SymbolId other) { return symbols[static_cast<std::size_t>(other)].name; });
}

SizeRange range_of(const Symbol& symbol) {
  return {std::max<std::int64_t>(symbol.min.value_or(0), 0), symbol.max.value_or(SizeRange().max)};
}

ScopeId common_ancestor(const Program& program, const std::vector<ScopeId>& scopes) {
  if (scopes.empty()) return 0;
  ScopeId common = scopes.front();
  for (ScopeId other : scopes) {
    // A parent stands before its children, so the larger of two different scopes cannot enclose the smaller.
    while (common != other) {
      ScopeId& deeper = common > other ? common : other;
      deeper = program.scopes[deeper].parent;
      if (deeper == none_id) return 0;
    }
  }
  return common;
}

std::vector<const Node*> operations(const Program& program) {
  std::vector<const Node*> found;
  each_node(program.body, [&](const Node& node) { found.push_back(&node); });
  return found;
}

std::string program_digest(const Program& program) {
  // Scopes are told by module and call, not by number: readers may number them differently.
  std::string text;
  for (const Node* node : operations(program)) {
    const Scope& scope = program.scopes[node->origin.scope];
    text += node->target;
    text += '.';
    text += node->overload;
    text += '\t';
    text += program.modules[scope.module].path;
    text += '#';
    text += std::to_string(scope.call);
    text += '\n';
  }
  for (const Parameter& parameter : program.parameters) text += parameter.name + '\n';
  return digest_of(text.data(), text.size());
}

}  // namespace whence
