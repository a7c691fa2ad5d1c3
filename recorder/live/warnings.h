// Warns if a model's Python code branches on the value of a traced tensor or uses it as a number: the trace is then
// fixed to the example's value. PyTorch's own warning is unspecific and also appears for sizes. This one has the source
// line, and appears only for values.
#pragma once

#include <optional>
#include <vector>

#include "recorder/base/torch_pch.h"
#include "whence/diagnostics.h"

namespace at {
struct RecordFunction;
}

namespace whence::recorder::live {

// Returns the graph's values for the tensors that the operation that just ended read into Python: bool(x), int(x),
// torch.equal(x, y). Usually there are none. Call it while the tracer is on.
std::vector<const torch::jit::Value*> values_read_by_python(const at::RecordFunction& function);
// Returns the warning, with the line that used the value. Returns none for PyTorch's own lines that read lengths of
// packed sequences: the trace does not depend on them. Call it on the tracing thread.
std::optional<Diagnostic> used_value();

// Adds the warning, or increments its count if the same line already caused it.
void add_warning(Diagnostics& diagnostics, Diagnostic warning);

}  // namespace whence::recorder::live
