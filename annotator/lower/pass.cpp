#include "annotator/lower/pass.h"

#include <algorithm>
#include <utility>

#include "annotator/graph/tensor_values.h"
#include "schema/source_stack.h"

namespace whence {

const std::string* named_in(const std::set<std::string>& operators, const std::string& key) {
  if (operators.empty()) return nullptr;
  const std::size_t dot = key.find('.', key.find("::") + 2);
  for (const std::string& name : {dot == std::string::npos ? key + ".default" : key, key.substr(0, dot)}) {
    if (const auto found = operators.find(name); found != operators.end()) return &*found;
  }
  return nullptr;
}

void replace(Argument& argument, const Replacements& replacements) {
  if (auto* list = std::get_if<ArgumentList>(&argument.data)) {
    for (Argument& element : *list) replace(element, replacements);
    return;
  }
  while (const auto* reference = argument.as<ValueRef>()) {
    const auto found = replacements.find(reference->id);
    if (found == replacements.end()) return;
    argument = Argument(found->second);
  }
}

void replace(std::vector<NamedArgument>& arguments, const Replacements& replacements) {
  for (NamedArgument& argument : arguments) replace(argument.value, replacements);
}

void for_each_value(const Argument& argument, const std::function<void(ValueId)>& visit) {
  if (const auto* reference = argument.as<ValueRef>()) visit(reference->id);
  if (const auto* list = argument.as<ArgumentList>()) {
    for (const Argument& element : *list) for_each_value(element, visit);
  }
}

namespace {

void collect_read(const Block& block, std::unordered_set<ValueId>& read) {
  const auto visit = [&](ValueId id) { read.insert(id); };
  for (const Node& node : block.nodes) {
    for (const NamedArgument& argument : node.arguments) for_each_value(argument.value, visit);
    for (const Block& nested : node.blocks) collect_read(nested, read);
  }
  for (const Argument& output : block.outputs) for_each_value(output, visit);
}

void open_nodes_of(Block& block, Replacements& replaced,
                   const std::function<bool(const Node& node, std::vector<Node>& to)>& open) {
  std::vector<Node> result;
  result.reserve(block.nodes.size());
  for (Node& node : block.nodes) {
    replace(node.arguments, replaced);
    for (Block& nested : node.blocks) open_nodes_of(nested, replaced, open);
    if (!open(node, result)) result.push_back(std::move(node));
  }
  block.nodes = std::move(result);
  for (Argument& output : block.outputs) replace(output, replaced);
}

}  // namespace

std::unordered_set<ValueId> values_read(const Program& program) {
  std::unordered_set<ValueId> read;
  collect_read(program.body, read);
  for (const ProgramOutput& output : program.outputs) {
    for_each_value(output.value, [&](ValueId id) { read.insert(id); });
  }
  return read;
}

void open_nodes(Program& program, Replacements& replaced,
                const std::function<bool(const Node& node, std::vector<Node>& to)>& open) {
  open_nodes_of(program.body, replaced, open);
  for (ProgramOutput& output : program.outputs) replace(output.value, replaced);
}

std::optional<std::int64_t> known_integer(const Program& program, const Argument& argument) {
  if (const auto* integer = argument.as<std::int64_t>()) return *integer;
  if (const auto* flag = argument.as<bool>()) return *flag ? 1 : 0;
  const auto* reference = argument.as<ValueRef>();
  if (reference == nullptr) return std::nullopt;
  const Value& value = program.values[reference->id];
  const ConstantId content = value.source == ValueSource::constant ? value.index : value.known;
  return content == none_id ? std::nullopt : single_integer(program.constants[content].data);
}

std::optional<bool> known_flag(const Program& program, const Argument& argument) {
  const auto known = known_integer(program, argument);
  return known ? std::optional<bool>(*known != 0) : std::nullopt;
}

bool same_shape(const Type& a, const Type& b) {
  if (!a.dims || !b.dims || a.dims->size() != b.dims->size()) return false;
  return std::equal(a.dims->begin(), a.dims->end(), b.dims->begin(), [](const Dim& x, const Dim& y) {
    if (x.is_static() || y.is_static()) return x.is_static() && y.is_static() && x.size == y.size;
    return x.symbol != none_id && x.symbol == y.symbol;
  });
}

bool any_node(const Block& block, const std::function<bool(const Node&)>& wanted) {
  return std::any_of(block.nodes.begin(), block.nodes.end(), [&](const Node& node) {
    return wanted(node) || std::any_of(node.blocks.begin(), node.blocks.end(),
                                       [&](const Block& nested) { return any_node(nested, wanted); });
  });
}

bool may_become_one(const Program& program, const Dim& dim) {
  if (dim.is_static() || dim.symbol == none_id) return !dim.is_static();
  const std::string& name = program.symbols[dim.symbol].name;
  return name.size() > 1 && name[0] == 'u' && name.find_first_not_of("0123456789", 1) == std::string::npos;
}

bool may_widen(const Program& program, const Dim& dim, std::optional<std::int64_t> size) {
  return size.value_or(1) > 1 && may_become_one(program, dim);
}

Place place_of(const Program& program, const Node& node, std::string stage) {
  Place place;
  place.stage = std::move(stage);
  place.module = program.module_path(node.origin.scope);
  place.has_module = true;
  // A TorchScript value without a name of its own has a number, which tells nobody anything.
  if (node.origin.name.find_first_not_of("0123456789") != std::string::npos) place.node = node.origin.name;
  place.op = qualified(node);
  if (node.origin.stack != none_id) place.source = source_place(program.stacks[node.origin.stack]);
  return place;
}

}  // namespace whence
