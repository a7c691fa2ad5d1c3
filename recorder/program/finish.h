// The last step of a recording: operations get their numbers, of all that is known only what the rest of the program
// reads is kept, as constants, and values that nothing mentions (those of later iterations of a loop) go.
#pragma once

#include <unordered_map>

#include "recorder/base/torch_pch.h"
#include "schema/program.h"

namespace whence::recorder {

// Calls `visit` for every reference to a value, to be read or, where the argument is not const, changed.
void visit_argument(auto& argument, const auto& visit) {
  if (auto* value = std::get_if<ValueRef>(&argument.data)) visit(value->id);
  if (auto* list = std::get_if<ArgumentList>(&argument.data)) {
    for (auto& element : *list) visit_argument(element, visit);
  }
}

// Every value that the node reads, and that its blocks yield.
inline void each_argument(const Node& node, const auto& visit) {
  for (const NamedArgument& argument : node.arguments) visit_argument(argument.value, visit);
  for (const Block& block : node.blocks) {
    for (const Argument& output : block.outputs) visit_argument(output, visit);
  }
}

// A tensor, or a number as a tensor without axes; the bytes are the tensor's own.
TensorData data_of(const c10::IValue& value);

// A copy of the tensor's bytes, on the host.
TensorData copied_data(const at::Tensor& tensor);

// `known`: what values are that depend on no input.
void finish_program(Program& program, const std::unordered_map<ValueId, c10::IValue>& known);

}  // namespace whence::recorder
