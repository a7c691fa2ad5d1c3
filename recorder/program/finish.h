// The last step of a recording: numbers the operations, makes constants of the known values that the program reads, and
// drops unused values (such as those of later iterations of a loop).
#pragma once

#include <unordered_map>

#include "recorder/base/torch_pch.h"
#include "schema/program.h"

namespace whence::recorder::program {

// Returns the data of a tensor, or of a number as a 0-d tensor. Shares the tensor's memory if it is contiguous.
TensorData data_of(const c10::IValue& value);

// Returns a copy of the tensor's bytes, on the host.
TensorData copied_data(const at::Tensor& tensor);

// Finishes the program. `known`: contents of values that depend on no input.
void finish_program(Program& program, const std::unordered_map<ValueId, c10::IValue>& known);

}  // namespace whence::recorder::program
