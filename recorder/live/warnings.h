// Warns when a model's Python code uses the value of a traced tensor, to branch on it or as a number: the trace then
// holds only what followed from the example. PyTorch's own warning is general, and is also given for sizes; this one is
// a diagnostic with the source line, and only for values.
#pragma once

#include <optional>
#include <vector>

#include "recorder/base/torch_pch.h"
#include "whence/diagnostics.h"

namespace at {
struct RecordFunction;
}

namespace whence::recorder::live {

// Returns the graph's values for the tensors whose content the operation that just ended gave to Python: bool(x),
// int(x), torch.equal(x, y). Usually none. Call it while the tracer is on.
std::vector<const torch::jit::Value*> values_given_to_python(const at::RecordFunction& function);
// Returns the warning, with the line that used the value; nothing for lines of PyTorch that read lengths of packed
// sequences, of which nothing stays in the trace. Call it on the tracing thread.
std::optional<Diagnostic> used_value();

// Adds the warning, or counts it if the same line caused the same one before.
void add_warning(Diagnostics& diagnostics, Diagnostic warning);

}  // namespace whence::recorder::live
