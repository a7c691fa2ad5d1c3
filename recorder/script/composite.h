// Takes apart an operator that ATen defines by others: aten::kron -> reshape, mul, reshape. The operator is run on
// random tensors, and a fallback kernel on a dispatch key of its own sees every operator it calls, so whence needs no
// definition besides ATen's.
#pragma once

#include "schema/recorder_api.h"

namespace whence::recorder::script {

// See RecorderApi.
bool trace_composite(const CompositeCall& call, Program& steps, Diagnostics& diagnostics);

}  // namespace whence::recorder::script
