// What an operator calls that ATen defines by others: aten::kron -> reshape, mul, reshape. It is run on random tensors,
// and a fallback kernel on a dispatch key of its own sees every call on the way, so ATen's definition is the only one.
#pragma once

#include "schema/recorder_api.h"

namespace whence::recorder {

// See RecorderApi.
bool trace_composite(const CompositeCall& call, Program& steps, Diagnostics& diagnostics);

}  // namespace whence::recorder
