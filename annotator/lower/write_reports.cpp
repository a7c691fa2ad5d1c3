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

void WriteReports::tell_of_write(const Node& node, ValueId memory) {
  const Program& program = lowering_.program;
  const Value& value = program.values[memory];
  if (node.target == "aten::requires_grad_") return;
  if (value.source == ValueSource::parameter) {
    tell(node,
         "the model writes to '" + program.parameters[value.index].name +
             "'; each run of the ONNX file starts from the archive's value",
         "return the new value as an output and take it as an input, if later runs need it");
  } else if (value.source == ValueSource::input && value.index >= 0) {
    tell(node,
         "the model writes to its input '" + program.inputs[value.index].name +
             "'; a run of the ONNX file leaves inputs as they are",
         "return the new value as an output, if the caller needs it");
  }
}

void WriteReports::tell(const Node& node, const std::string& what, const std::string& remedy) {
  for (Diagnostic& known : lowering_.notes) {
    if (known.message != what) continue;
    ++known.count;
    return;
  }
  lowering_.notes.push_back(
      {Code::state_not_kept, Severity::warning, what, place_of(lowering_.program, node, "lower"), remedy, 1, {}});
}

}  // namespace whence
