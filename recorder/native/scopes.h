// Moves the nodes of a trace into tracer scopes for the modules that find_owners() found, so that LibTorch makes a
// method of each call, as for a trace from Python. Also gives every operation its source lines.
#pragma once

#include "recorder/native/session.h"

namespace whence::native {

struct ScopeCount {
  std::int64_t exact = 0, inferred = 0, enclosing = 0;  // operations
};

// Call it after forward has returned and before the tracer ends.
ScopeCount move_into_scopes(torch::jit::Graph& graph, const Session& session, Symbols& symbols);

}  // namespace whence::native
