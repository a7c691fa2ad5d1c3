// Where a model's Python branches on the value of a traced tensor: the trace then holds one branch. PyTorch warns of it
// in general words; here it is a diagnostic with the source line.
#pragma once

#include <optional>

#include "recorder/torch_pch.h"
#include "schema/diagnostic.h"

namespace at {
struct RecordFunction;
}

namespace whence {

// A warning when the operation that ended asked whether a tensor is true. Call it on the tracing thread.
std::optional<Diagnostic> branched_on_tensor(const at::RecordFunction& function);

// Adds it, or counts it where the same line said the same before.
void add_warning(Diagnostics& diagnostics, Diagnostic warning);

}  // namespace whence
