// Where a model's Python reads a value out of a traced tensor: a branch, a loop or a number that the trace then holds
// fixed. PyTorch warns of it in general words; here it is a diagnostic with the source line.
#pragma once

#include <optional>

#include "recorder/torch_pch.h"
#include "schema/diagnostic.h"

namespace at {
struct RecordFunction;
}

namespace whence {

// A warning when the operation that ended hands a value of a tensor to Python. Call it on the tracing thread.
std::optional<Diagnostic> value_left_trace(const at::RecordFunction& function);

// Adds it, or counts it where the same line said the same before.
void add_warning(Diagnostics& diagnostics, Diagnostic warning);

}  // namespace whence
