// Brings a trace into scopes: what find_owners() says becomes scopes of the tracer's around the nodes, so that LibTorch
// makes a method of each call, as it does of a trace from Python; and every operation gets its source lines.
#pragma once

#include "recorder/native/session.h"

namespace whence::native {

struct ScopeCount {
  std::int64_t exact = 0, inferred = 0, enclosing = 0;  // operations
};

// To be called when forward has returned, before the tracer ends.
ScopeCount bring_into_scopes(torch::jit::Graph& graph, const Session& session, Symbols& symbols);

}  // namespace whence::native
