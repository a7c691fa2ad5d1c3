// Queries on a Program: arguments by name, known values, ranges, common scopes, execution order, digest.
#include "schema/program.h"

#include <algorithm>
#include <utility>

#include "schema/files/files.h"
#include "schema/program_walk.h"
#include "schema/size_text.h"

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

Size length_of(const IndexedVector<SymbolId, Symbol>& symbols, const Dim& dim) {
  if (dim.is_static()) return dim.size;
  if (!dim.dynamic || dim.symbol == none_id) return Size::unknown();
  const Symbol& symbol = symbols[dim.symbol];
  return symbol.kind == SymbolKind::derived ? symbol.size : Size::symbol(dim.symbol);
}

bool same_length(const Dim& a, const Dim& b) {
  if (a.is_static() || b.is_static()) return a.is_static() && b.is_static() && a.size == b.size;
  return a.symbol != none_id && a.symbol == b.symbol;
}

namespace {

// Simplifies a size under the assumption that every length is at least 1: max(0, n - 1) becomes n - 1.
Size without_zero_lengths(const Size& size) {
  Size sum = size.number();
  for (const Size::Term& term : size.terms()) {
    Size product = term.coefficient;
    for (const auto& factor : term.factors) {
      const bool is_minimum = factor->kind == SizeAtom::Kind::minimum;
      if (!is_minimum && factor->kind != SizeAtom::Kind::maximum) {
        product = product * Size::sum(0, {{1, {factor}}});
        continue;
      }
      std::vector<Size> operands;
      std::ranges::transform(factor->operands, std::back_inserter(operands), without_zero_lengths);
      const auto is_extreme = [&](const Size& one) {
        return std::ranges::all_of(operands, [&](const Size& other) {
          return range_of(is_minimum ? other - one : one - other, [](SymbolId) { return SizeRange{1}; }).min >= 0;
        });
      };
      const auto found = std::ranges::find_if(operands, is_extreme);
      product = product * (found != operands.end() ? *found : is_minimum ? minimum(operands) : maximum(operands));
    }
    sum = sum + product;
  }
  return sum;
}

}  // namespace

// The name is for people, so it ignores lengths of 0 to be shorter, unless this would make it a plain number.
void name_derived(IndexedVector<SymbolId, Symbol>& symbols, SymbolId id) {
  Symbol& symbol = symbols[id];
  const Size size = symbol.size.is_known() ? without_zero_lengths(symbol.size) : symbol.size;
  symbol.name = text_of(size.is_integer() ? symbol.size : size, [&](SymbolId other) { return symbols[other].name; });
}

std::optional<std::int64_t> known_integer(const Program& program, const Argument& argument) {
  if (const auto* integer = argument.as<std::int64_t>()) return *integer;
  if (const auto* flag = argument.as<bool>()) return *flag ? 1 : 0;
  const auto* reference = argument.as<ValueRef>();
  if (reference == nullptr) return std::nullopt;
  const ConstantId content = program.values[reference->id].content();
  return content == none_id ? std::nullopt : single_integer(program.constants[content].data);
}

std::optional<bool> known_flag(const Program& program, const Argument& argument) {
  const auto known = known_integer(program, argument);
  return known ? std::optional<bool>(*known != 0) : std::nullopt;
}

SizeRange range_of(const Symbol& symbol) {
  constexpr std::int64_t default_min_of_torch_export = 2;
  const std::int64_t min = symbol.min.value_or(0);
  const bool is_default = symbol.kind == SymbolKind::axis && min <= default_min_of_torch_export;
  return {is_default ? 0 : std::max<std::int64_t>(min, 0), symbol.max.value_or(SizeRange().max)};
}

namespace {

// Returns true if the comparison holds for all lengths: n <= 2*n.
bool holds_for_lengths(const Comparison& comparison) {
  const auto min_of = [](const Size& size) { return range_of(size, [](SymbolId) { return SizeRange{0}; }).min; };
  const Size over = comparison.left - comparison.right, under = comparison.right - comparison.left;
  switch (comparison.relation) {
    case Relation::at_least:
      return min_of(over) >= 0;
    case Relation::greater:
      return min_of(over) > 0;
    case Relation::at_most:
      return min_of(under) >= 0;
    case Relation::less:
      return min_of(under) > 0;
    case Relation::equal:
      return certainly_equal(comparison.left, comparison.right);
    case Relation::different:
      return false;
  }
  return false;
}

}  // namespace

void assume(Program& program, Constraint constraint) {
  if (std::ranges::any_of(constraint.any, holds_for_lengths)) return;
  auto& all = program.constraints;
  if (std::ranges::find(all, constraint) == all.end()) all.push_back(std::move(constraint));
}

bool may_be(const Program& program, const Size& size, std::int64_t number) {
  if (!may_be(size, number, [&](SymbolId id) { return range_of(program.symbols[id]); })) return false;
  const auto excludes = [&](const Comparison& each) {
    return each.left == size && each.right.is_integer() && holds({{{number, each.relation, each.right}}}, {}) == false;
  };
  return std::ranges::none_of(
      program.constraints, [&](const Constraint& constraint) { return std::ranges::all_of(constraint.any, excludes); });
}

ScopeId common_ancestor(const Program& program, const std::vector<ScopeId>& scopes) {
  if (scopes.empty()) return root_scope;
  ScopeId common = scopes.front();
  for (ScopeId other : scopes) {
    // Parents precede their children, so the larger of two different scopes cannot enclose the smaller one.
    while (common != other) {
      ScopeId& deeper = common > other ? common : other;
      deeper = program.scopes[deeper].parent;
      if (deeper == none_id) return root_scope;
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
  // Identifies scopes by module and call because readers may number them differently.
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
