#include "recorder/live_warnings.h"

#include <ATen/record_function.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include "schema/files.h"

namespace whence {

std::optional<Diagnostic> value_left_trace(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  const bool branch = name == "aten::is_nonzero";
  if (!branch && name != "aten::item") return std::nullopt;
  Diagnostic warning;
  warning.code = Code::baked_value;
  warning.severity = Severity::warning;
  warning.message = branch ? "the model branches on the value of a tensor: the trace holds the branch that was taken"
                           : "the model turns a tensor into a Python number: the trace holds that number";
  warning.remedy = branch ? "use torch.where, or torch.jit.script for the part that branches"
                          : "keep it a tensor, if it is to differ between inputs";
  warning.where.stage = "record";
  for (const torch::jit::StackEntry& entry : torch::jit::tracer::pythonCallstack()) {
    const auto place = entry.range.file_line_col();
    if (!place) continue;
    warning.where.source = base_name(std::get<0>(*place)) + ":" + std::to_string(std::get<1>(*place)) + " " + entry.filename;
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
