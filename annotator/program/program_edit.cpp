#include "annotator/program/program_edit.h"

#include <utility>

namespace whence::program {

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

}  // namespace whence::program
