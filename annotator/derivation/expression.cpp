#include "annotator/derivation/expression.h"

#include <array>
#include <numeric>
#include <sstream>
#include <string_view>

#include "whence/diagnostics.h"

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
  std::string operator()(const NumberStep& step) const {
    std::ostringstream text;
    text << step.number;
    return text.str();
  }
  std::string operator()(const PickStep& step) const { return to_text(inputs[0]) + "[" + runs_text(step.runs) + "]"; }
  std::string operator()(const ConcatenateStep&) const { return "concatenate" + arguments(); }
  std::string operator()(const TransposeStep& step) const {
    if (step.order == std::vector<std::int64_t>{1, 0}) return "transpose" + arguments();
    return "transpose " + list_text(step.order) + arguments();
  }
  std::string operator()(const ReshapeStep& step) const { return "reshape " + list_text(step.dims) + arguments(); }
  std::string operator()(const CastStep& step) const {
    return std::string(name_of(step.dtype)) + (step.range.is_limited() ? " clamped" : "") + arguments();
  }
  std::string operator()(const FoldStep& step) const {
    return std::string(step.is_bias ? "fold norm into bias" : "fold norm into weight") + arguments();
  }
  std::string operator()(const ByChannelStep& step) const {
    const bool multiplies = step.operation == ByChannelStep::Operation::multiply;
    return std::string(multiplies ? "multiply" : "add") + " by channel of axis " + std::to_string(step.axis) +
           arguments();
  }
  std::string operator()(const PadStep& step) const { return "pad to " + list_text(step.dims) + arguments(); }
  std::string operator()(const QuantiseStep& step) const {
    static constexpr std::array<std::string_view, 3> parts = {"quantise ", "scales of ", "zero points of "};
    return std::string(parts[static_cast<std::size_t>(step.part)]) + to_text(step.scheme) + arguments();
  }
  std::string operator()(const QuantiseBiasStep& step) const {
    return std::string(step.is_scale ? "scale of bias" : "quantise bias") + arguments();
  }
};

// Expressions are read from statements, which may be of any content.
void require_fit(bool fits) {
  if (fits) return;
  throw Error(Code::corrupt_file, "a derivation contradicts itself", "write the statement again", {.stage = "derive"});
}

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

std::vector<std::int64_t> dims_of(const Expression& expression) {
  if (const auto* step = std::get_if<ParameterStep>(&expression.step)) return step->dims;
  if (const auto* step = std::get_if<ReshapeStep>(&expression.step)) return step->dims;
  if (const auto* step = std::get_if<PadStep>(&expression.step)) return step->dims;
  if (std::holds_alternative<NumberStep>(expression.step)) return {};
  require_fit(!expression.inputs.empty());
  std::vector<std::int64_t> dims = dims_of(expression.inputs[0]);
  if (const auto* step = std::get_if<TransposeStep>(&expression.step)) {
    const std::vector<std::int64_t> from = dims;
    require_fit(step->order.size() == from.size());
    for (std::size_t i = 0; i < dims.size(); ++i) {
      require_fit(step->order[i] >= 0 && step->order[i] < static_cast<std::int64_t>(from.size()));
      dims[i] = from[static_cast<std::size_t>(step->order[i])];
    }
  } else if (const auto* pick = std::get_if<PickStep>(&expression.step)) {
    require_fit(!dims.empty());
    dims[0] = 0;
    for (const Run& run : pick->runs) dims[0] += run.count;
  } else if (std::holds_alternative<ConcatenateStep>(expression.step)) {
    require_fit(!dims.empty());
    for (std::size_t i = 1; i < expression.inputs.size(); ++i) {
      const std::vector<std::int64_t> other = dims_of(expression.inputs[i]);
      require_fit(!other.empty());
      dims[0] += other[0];
    }
  }
  return dims;
}

bool is_whole_parameter(const Expression& expression) {
  if (const auto* const parameter = std::get_if<ParameterStep>(&expression.step)) return !parameter->is_computed();
  const bool keeps_elements =
      std::holds_alternative<TransposeStep>(expression.step) || std::holds_alternative<ReshapeStep>(expression.step) ||
      std::holds_alternative<CastStep>(expression.step) || std::holds_alternative<QuantiseStep>(expression.step);
  return keeps_elements && is_whole_parameter(expression.inputs.at(0));
}

}  // namespace whence::derivation
