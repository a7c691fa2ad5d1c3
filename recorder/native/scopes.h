// Puts the nodes of a trace into the tracer's scopes for the modules that find_owners() found, so that LibTorch makes a
// method of each call, as it does for a trace from Python; and gives every operation its source lines.
#pragma once

#include "recorder/native/session.h"

namespace whence::native {

struct ScopeCount {
  std::int64_t exact = 0, inferred = 0, enclosing = 0;  // operations
};

// Call it when forward has returned, before the tracer ends.
ScopeCount bring_into_scopes(torch::jit::Graph& graph, const Session& session, Symbols& symbols);

}  // namespace whence::native
