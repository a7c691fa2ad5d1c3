#include "annotator/lower/write_reports.h"

#include <utility>

#include "schema/operator_facts.h"

namespace whence::lower {

using program::place_of;

Failure WriteReports::refusal(const Node& node, const std::string& why) const {
  const Program& program = lowering_.program;
  return failure_of(&node, {Code::unsupported_feature,
                            Severity::error,
                            qualified(node) + ": " + why,
                            place_of(program, node, "lower"),
                            program.source.kind == "torch.export" && !node.target.starts_with("aten::")
                                ? "call program.run_decompositions() before torch.export.save; this shows the writes"
                                : "write the model without in-place operations here, e.g. with .clone() or torch.where",
                            1,
                            {}});
}

void WriteReports::report(const Failure& failure) {
  const Diagnostic& added = failure.diagnostic;
  for (const Failure& earlier : lowering_.failures) {
    const Diagnostic& known = earlier.diagnostic;
    if (known.message == added.message && known.where == added.where) return;
  }
  lowering_.failures.push_back(failure);
}

void WriteReports::warn_of_write(const Node& node, ValueId memory) {
  if (facts_of(node.target).keeps_content) return;  // the operator does not change the content
  const Program& program = lowering_.program;
  const Value& value = program.values[memory];
  if (value.index < 0) return;
  const auto say = [&](WrittenTo kind, const std::string& name) {
    warn(memory, lost_write(kind, name, place_of(program, node, "lower")));
  };
  if (value.source == ValueSource::parameter) say(WrittenTo::state, program.parameters[ParameterId(value.index)].name);
  if (value.source == ValueSource::constant) say(WrittenTo::constant, program.constants[ConstantId(value.index)].name);
  if (value.source == ValueSource::input) say(WrittenTo::input, program.inputs[value.index].name);
}

void WriteReports::withdraw_write(ValueId returned) {
  if (lowering_.program.values[returned].source != ValueSource::input) return;
  std::erase_if(warnings_, [&](const Warning& each) { return each.memory == returned; });
}

void WriteReports::restore(Mark mark) {
  lowering_.failures = std::move(mark.failures);
  warnings_ = std::move(mark.warnings);
}

void WriteReports::warn_of_overlap(const Node& node) {
  warn(none_id,
       warning(Code::unsupported_feature,
               qualified(node) +
                   " reads memory that it also writes to, at another offset: PyTorch's result depends on the "
                   "order in which it accesses memory; the ONNX file reads the contents from "
                   "before the write",
               "if that is intended, write y[:, 1:] = y[:, :-1].clone()", place_of(lowering_.program, node, "lower")));
}

void WriteReports::warn(ValueId memory, Diagnostic diagnostic) {
  for (Warning& known : warnings_) {
    if (known.memory != memory || known.diagnostic.message != diagnostic.message) continue;
    ++known.diagnostic.count;
    return;
  }
  warnings_.push_back({memory, std::move(diagnostic)});
}

void WriteReports::finish() {
  for (Warning& each : warnings_) lowering_.notes.push_back(std::move(each.diagnostic));
  warnings_.clear();
}

}  // namespace whence::lower
