// Decomposes an operator that ATen defines by others: aten::kron -> reshape, mul, reshape. Runs the operator on random
// tensors; a fallback kernel on a separate dispatch key observes every operator that it calls, so whence needs no
// definition besides ATen's.
#pragma once

#include "schema/recorder_api.h"

namespace whence::recorder::script {

// See RecorderApi.
bool trace_composite(const CompositeCall& call, Program& steps, Diagnostics& diagnostics);

}  // namespace whence::recorder::script
