#include "recorder/live_warnings.h"

#include <ATen/record_function.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include "schema/files.h"

namespace whence {

std::optional<Diagnostic> branched_on_tensor(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  if (name != "aten::is_nonzero") return std::nullopt;  // what bool(tensor) asks, in every `if` and `while`
  Diagnostic warning;
  warning.code = Code::baked_value;
  warning.severity = Severity::warning;
  warning.message = "the model branches on the value of a tensor: the trace holds the branch that was taken";
  warning.remedy = "use torch.where, or torch.jit.script for the part that branches";
  warning.where.stage = "record";
  for (const torch::jit::StackEntry& entry : torch::jit::tracer::pythonCallstack()) {
    const auto place = entry.range.file_line_col();
    if (!place) continue;
    warning.where.source =
        base_name(std::get<0>(*place)) + ":" + std::to_string(std::get<1>(*place)) + " " + entry.filename;
    break;  // the innermost Python frame
  }
  return warning;
}

void add_warning(Diagnostics& diagnostics, Diagnostic warning) {
  for (Diagnostic& known : diagnostics) {
    if (known.code != warning.code || known.where != warning.where || known.message != warning.message) continue;
    ++known.count;
    return;
  }
  diagnostics.push_back(std::move(warning));
}

}  // namespace whence
