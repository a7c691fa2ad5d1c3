// Where a model's Python uses the value of a traced tensor, to branch on it or as a number: the trace then holds what
// followed from the example. PyTorch warns of it in general words, and of sizes too; here it is a diagnostic with the
// source line, of values alone.
#pragma once

#include <vector>

#include "recorder/base/torch_pch.h"
#include "whence/diagnostics.h"

namespace at {
struct RecordFunction;
}

namespace whence::recorder {

// What the tracer knows of tensors whose value the operation that ended gave to Python: bool(x), int(x),
// torch.equal(x, y). Mostly none. Call it while the tracer is on.
std::vector<const torch::jit::Value*> values_given_to_python(const at::RecordFunction& function);
// The warning, with the line that asked. Call it on the tracing thread.
Diagnostic used_value();

// Adds it, or counts it where the same line said the same before.
void add_warning(Diagnostics& diagnostics, Diagnostic warning);

}  // namespace whence::recorder
