// Collects uses in one pass over the program, nested blocks included.
#include "annotator/convert/uses.h"

namespace whence::convert {

ProgramUses::ProgramUses(const Program& program) : program_(program) {
  read(program.body);
  for (const ProgramOutput& output : program.outputs) read(output.value, ProgramUse{});
}

void ProgramUses::read(const Block& block) {
  for (const Node& node : block.nodes) {
    for (const NamedArgument& argument : node.arguments) read(argument.value, ProgramUse{&node, argument.name});
    for (const Block& nested : node.blocks) read(nested);
  }
  for (const Argument& output : block.outputs) read(output, ProgramUse{});
}

void ProgramUses::read(const Argument& argument, const ProgramUse& use) {
  if (const auto* list = argument.as<ArgumentList>()) {
    for (const Argument& element : *list) read(element, use);
  } else if (const auto* reference = argument.as<ValueRef>()) {
    const Value& value = program_.values[reference->id];
    const bool parameter = value.source == ValueSource::parameter;
    (parameter ? by_parameter_[ParameterId(value.index)] : by_value_[reference->id]).push_back(use);
  }
}

const std::vector<ProgramUse>& ProgramUses::of(ValueId value) const {
  static const std::vector<ProgramUse> none;
  const Value& read = program_.values[value];
  if (read.source == ValueSource::parameter) {
    const auto found = by_parameter_.find(ParameterId(read.index));
    return found == by_parameter_.end() ? none : found->second;
  }
  const auto found = by_value_.find(value);
  return found == by_value_.end() ? none : found->second;
}

}  // namespace whence::convert
