#include "annotator/derivation/expression.h"

#include <array>
#include <numeric>
#include <string_view>

namespace whence::derivation {
namespace {

std::string list_text(const std::vector<std::int64_t>& numbers) {
  std::string text = "[";
  for (const std::int64_t number : numbers) text += (text.size() > 1 ? ", " : "") + std::to_string(number);
  return text + "]";
}

std::string runs_text(const std::vector<Run>& runs) {
  constexpr std::size_t shown = 4;
  std::string text;
  for (std::size_t i = 0; i < runs.size() && i < shown; ++i) {
    const Run& run = runs[i];
    if (i > 0) text += ", ";
    text += std::to_string(run.first);
    if (run.count > 1) text += ":" + std::to_string(run.first + run.count * run.step);
    if (run.count > 1 && run.step != 1) text += ":" + std::to_string(run.step);
  }
  return text + (runs.size() > shown ? ", ... " + std::to_string(runs.size()) + " runs" : "");
}

struct Text {
  const std::vector<Expression>& inputs;

  std::string arguments() const {
    std::string text;
    for (const Expression& input : inputs) text += (text.empty() ? "" : ", ") + to_text(input);
    return "(" + text + ")";
  }
  std::string operator()(const ParameterStep& step) const { return step.is_computed() ? step.recipe : step.name; }
  std::string operator()(const KeptStep& step) const { return "kept '" + step.tensor + "'"; }
  std::string operator()(const PickStep& step) const { return to_text(inputs[0]) + "[" + runs_text(step.runs) + "]"; }
  std::string operator()(const ConcatenateStep&) const { return "concatenate" + arguments(); }
  std::string operator()(const TransposeStep& step) const {
    if (step.order == std::vector<std::int64_t>{1, 0}) return "transpose" + arguments();
    return "transpose " + list_text(step.order) + arguments();
  }
  std::string operator()(const ReshapeStep& step) const { return "reshape " + list_text(step.dims) + arguments(); }
  std::string operator()(const CastStep& step) const {
    return std::string(name_of(step.dtype)) + (step.clamped ? " clamped" : "") + arguments();
  }
  std::string operator()(const FoldStep& step) const {
    return std::string(step.is_bias ? "fold norm into bias" : "fold norm into weight") + arguments();
  }
  std::string operator()(const ScaleStep& step) const { return "scale " + std::to_string(step.factor) + arguments(); }
  std::string operator()(const QuantiseStep& step) const {
    static constexpr std::array<std::string_view, 3> parts = {"quantise ", "scales of ", "zero points of "};
    return std::string(parts[static_cast<std::size_t>(step.part)]) + to_text(step.scheme) + arguments();
  }
  std::string operator()(const QuantiseBiasStep& step) const {
    return std::string(step.is_scale ? "scale of bias" : "quantise bias") + arguments();
  }
};

}  // namespace

std::string to_text(const Expression& expression) { return std::visit(Text{expression.inputs}, expression.step); }

std::string to_text(const Scheme& scheme) {
  std::string text = (scheme.is_signed ? "int" : "uint") + std::to_string(scheme.bits);
  text += scheme.is_symmetric ? " symmetric" : " asymmetric";
  switch (scheme.groups.kind) {
    case Groups::Kind::tensor:
      return text;
    case Groups::Kind::channel:
      return text + " per channel of axis " + std::to_string(scheme.groups.axis);
    case Groups::Kind::block:
      return text + " per " + std::to_string(scheme.groups.block) + " of axis " + std::to_string(scheme.groups.axis);
  }
  return text;
}

}  // namespace whence::derivation
