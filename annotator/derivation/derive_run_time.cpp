// Finds the scales of weights that a file stores in floating point and quantises when it runs, as NVIDIA's tools write
// them: QuantizeLinear and DequantizeLinear after the weight. Such a scale is no calibration: it follows from the
// weight.
#include <algorithm>
#include <utility>

#include "annotator/derivation/deriver.h"
#include "annotator/derivation/element_views.h"
#include "annotator/program/tensor_values.h"

namespace whence::derivation {
namespace {

Expression in_single(Expression expression) {
  if (std::holds_alternative<CastStep>(expression.step)) return in_single(std::move(expression.inputs.at(0)));
  if (auto* const parameter = std::get_if<ParameterStep>(&expression.step)) parameter->dtype = DType::float32;
  for (Expression& input : expression.inputs) input = in_single(std::move(input));
  return expression;
}

}  // namespace

void Deriver::find_run_time_scales(const RunTimeWeight& weight) {
  const Derivation source = found(weight.numbers);
  if (!source.expression || known(weight.quantised.scales)) return;
  const StoredParts stored = stored_parts(weight.quantised);
  const auto set = [&](const Expression& from, const TensorData& numbers) {
    const auto real = program::cast_tensor(numbers, DType::float32);
    const auto scheme = real ? find_scales({floats_of(*real), real->shape}, weight.quantised, stored) : std::nullopt;
    if (!scheme) return false;
    set_quantised(weight.quantised, from, *scheme, false);
    // The scales follow exactly from numbers that are known up to rounding.
    for (const TensorNumber part : {weight.quantised.scales, weight.quantised.zeros}) {
      if (part != no_tensor && source.verdict == Verdict::bounded) found(part).verdict = Verdict::bounded;
    }
    return true;
  };
  const Expression single = in_single(*source.expression);
  const bool is_single = tensors_[weight.numbers].tensor->data_type == to_onnx(DType::float32);
  // A tool may have rounded the weight to float16 after it computed the scales.
  if (!is_single && set(single, evaluate(single, sources()))) return;
  const Expression own = is_single ? *source.expression : Expression{CastStep{DType::float32}, {*source.expression}};
  set(own, contents_.data(tensors_[weight.numbers]));
}

bool Deriver::is_scale_of_weight(TensorNumber tensor) {
  return std::ranges::any_of(tensors_.run_time_weights(), [&](const RunTimeWeight& weight) {
    const bool is_part = tensor == weight.quantised.scales || tensor == weight.quantised.zeros;
    return is_part && found(weight.numbers).expression;
  });
}

}  // namespace whence::derivation
