// The last step of a recording: operations get their numbers, of all that is known only what the rest of the program
// reads is kept, as constants, and values that nothing mentions (those of later iterations of a loop) go.
#pragma once

#include <unordered_map>

#include "recorder/base/torch_pch.h"
#include "schema/program.h"

namespace whence::recorder {

// A tensor, or a number as a tensor without axes; the bytes are the tensor's own.
TensorData data_of(const c10::IValue& value);

// A copy of the tensor's bytes, on the host.
TensorData copied_data(const at::Tensor& tensor);

// `known`: what values are that depend on no input.
void finish_program(Program& program, const std::unordered_map<ValueId, c10::IValue>& known);

}  // namespace whence::recorder
