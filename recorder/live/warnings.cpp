// Detects operations that pass a tensor's value to Python, and finds the Python line.
#include "recorder/live/warnings.h"

#include <ATen/record_function.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include "schema/files/files.h"

namespace whence::recorder::live {

std::vector<const torch::jit::Value*> values_read_by_python(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  if (name != "aten::is_nonzero" && name != "aten::item" && name != "aten::equal") return {};
  const auto& state = torch::jit::tracer::getTracingState();
  std::vector<const torch::jit::Value*> values;
  for (const c10::IValue& input : function.inputs()) {
    if (!input.isTensor() || !input.toTensor().defined() || !state->hasValue(input)) continue;
    try {
      values.push_back(state->getOutput(input, 0));  // getValue() would name the value, which changes the user's graph
    } catch (const std::exception&) {
      // The value belongs to an enclosing function, where the tracer does not look for outputs.
    }
  }
  return values;
}

std::optional<Diagnostic> used_value() {
  Diagnostic warning;
  warning.code = Code::baked_value;
  warning.severity = Severity::warning;
  warning.message = "Python uses the value of a tensor; the trace is fixed to the example's value";
  warning.remedy = "use torch.where, or torch.jit.script for the part that branches or loops";
  warning.where.stage = "record";
  for (const torch::jit::StackEntry& entry : torch::jit::tracer::pythonCallstack()) {
    const auto place = entry.range.file_line_col();
    if (!place) continue;
    for (const char* ignored_file : {"torch/nn/utils/rnn.py", "torch/nn/modules/rnn.py"}) {
      if (std::get<0>(*place).ends_with(ignored_file)) return std::nullopt;
    }
    warning.where.source =
        base_name(std::get<0>(*place)) + ":" + std::to_string(std::get<1>(*place)) + " " + entry.filename;
    break;  // the innermost Python frame
  }
  return warning;
}

void add_warning(Diagnostics& diagnostics, Diagnostic warning) {
  for (Diagnostic& existing : diagnostics) {
    if (existing.code != warning.code || existing.where != warning.where || existing.message != warning.message)
      continue;
    ++existing.count;
    return;
  }
  diagnostics.push_back(std::move(warning));
}

}  // namespace whence::recorder::live
