#include "annotator/lower/write_reports.h"

#include <utility>

namespace whence {

Diagnostic WriteReports::refusal(const Node& node, const std::string& why) const {
  const Program& program = lowering_.program;
  return {Code::unsupported_feature,
          Severity::error,
          qualified(node) + ": " + why,
          place_of(program, node, "lower"),
          program.source.kind == "torch.export" && !node.target.starts_with("aten::")
              ? "program.run_decompositions() before torch.export.save, which says what is written"
              : "write the model without in-place operations here, e.g. with .clone() or torch.where",
          1,
          {}};
}

void WriteReports::report(const Diagnostic& diagnostic) {
  for (const Diagnostic& known : lowering_.failures) {
    if (known.message == diagnostic.message && known.where == diagnostic.where) return;
  }
  lowering_.failures.push_back(diagnostic);
}

void WriteReports::tell_of_state(const Node& node, ValueId memory) {
  const Program& program = lowering_.program;
  const Value& value = program.values[memory];
  if (value.source != ValueSource::parameter || node.target == "aten::requires_grad_") return;
  const Parameter& parameter = program.parameters[value.index];
  for (Diagnostic& known : lowering_.notes) {
    if (known.code != Code::state_not_kept || known.message.find("'" + parameter.name + "'") == std::string::npos)
      continue;
    ++known.count;
    return;
  }
  lowering_.notes.push_back(
      {Code::state_not_kept,
       Severity::warning,
       "the model writes to '" + parameter.name + "'; each run of the ONNX file starts from the archive's value",
       place_of(program, node, "lower"),
       "return the new value as an output and take it as an input, if later runs need it",
       1,
       {}});
}

}  // namespace whence
