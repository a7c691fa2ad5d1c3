#include "annotator/program/program_facts.h"

#include <algorithm>
#include <utility>

#include "schema/source_stack.h"

namespace whence::program {

const std::string* named_in(const std::set<std::string>& operators, const std::string& key) {
  if (operators.empty()) return nullptr;
  const std::size_t dot = key.find('.', key.find("::") + 2);
  for (const std::string& name : {dot == std::string::npos ? key + ".default" : key, key.substr(0, dot)}) {
    if (const auto found = operators.find(name); found != operators.end()) return &*found;
  }
  return nullptr;
}

bool same_shape(const Type& a, const Type& b) {
  if (!a.dims || !b.dims || a.dims->size() != b.dims->size()) return false;
  return std::equal(a.dims->begin(), a.dims->end(), b.dims->begin(), same_length);
}

bool any_node(const Block& block, const std::function<bool(const Node&)>& condition) {
  return std::any_of(block.nodes.begin(), block.nodes.end(), [&](const Node& node) {
    return condition(node) || std::any_of(node.blocks.begin(), node.blocks.end(),
                                          [&](const Block& nested) { return any_node(nested, condition); });
  });
}

bool may_become_one(const Program& program, const Dim& dim) {
  const Size length = length_of(program.symbols, dim);
  const auto symbol = [&](SymbolId id) { return program.symbols[id]; };
  const auto axis = length.single_symbol();
  if (dim.is_static() || (axis && symbol(*axis).kind == SymbolKind::axis)) return false;
  return may_be(program, length, 1);
}

bool may_widen(const Program& program, const Dim& dim, std::optional<std::int64_t> size) {
  return size.value_or(1) > 1 && may_become_one(program, dim);
}

Place place_of(const Program& program, const Node& node, std::string stage) {
  Place place;
  place.stage = std::move(stage);
  place.module = program.module_path(node.origin.scope);
  place.has_module = true;
  // An unnamed TorchScript value has a number as its name, which does not help a reader.
  if (node.origin.name.find_first_not_of("0123456789") != std::string::npos) place.node = node.origin.name;
  place.op = qualified(node);
  if (node.origin.stack != none_id) place.source = source_place(program.stacks[node.origin.stack]);
  return place;
}

}  // namespace whence::program
