#include "annotator/program/program_edit.h"

#include <utility>

#include "schema/program_walk.h"

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

namespace {

void expand_nodes_of(Block& block, Replacements& replaced,
                     const std::function<bool(const Node& node, std::vector<Node>& to)>& expand) {
  std::vector<Node> result;
  result.reserve(block.nodes.size());
  for (Node& node : block.nodes) {
    replace(node.arguments, replaced);
    for (Block& nested : node.blocks) expand_nodes_of(nested, replaced, expand);
    if (!expand(node, result)) result.push_back(std::move(node));
  }
  block.nodes = std::move(result);
  for (Argument& output : block.outputs) replace(output, replaced);
}

}  // namespace

Node node_like(const Node& node, std::string target, std::string overload, std::vector<NamedArgument> arguments) {
  Node result;
  result.target = std::move(target);
  result.overload = std::move(overload);
  result.arguments = std::move(arguments);
  result.origin = node.origin;
  return result;
}

std::unordered_set<ValueId> values_read(const Program& program) {
  std::unordered_set<ValueId> read;
  const auto visit = [&](ValueId id) { read.insert(id); };
  each_value_read(program.body, visit);
  for (const ProgramOutput& output : program.outputs) each_value(output.value, visit);
  return read;
}

void expand_nodes(Program& program, Replacements& replaced,
                  const std::function<bool(const Node& node, std::vector<Node>& to)>& expand) {
  expand_nodes_of(program.body, replaced, expand);
  for (ProgramOutput& output : program.outputs) replace(output.value, replaced);
}

}  // namespace whence::program
