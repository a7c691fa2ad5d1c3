#include "annotator/derivation/fold.h"

#include <cmath>
#include <cstring>
#include <numeric>

namespace whence::derivation {
namespace {

std::vector<float> numbers_of(const TensorData& data) {
  std::vector<float> numbers(static_cast<std::size_t>(data.element_count()));
  const auto bytes = data.bytes.in_memory().value();
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(float));
  return numbers;
}

struct Norm {
  std::vector<float> scale, shift, mean, variance;
  float epsilon = 0;  // as ONNX stores it, also for tools that compute in double precision

  Norm(const FoldStep& step, const std::vector<TensorData>& inputs) : epsilon(static_cast<float>(step.epsilon)) {
    std::size_t at = !step.is_bias || step.has_bias ? 1 : 0;
    if (step.is_affine) {
      scale = numbers_of(inputs[at++]);
      shift = numbers_of(inputs[at++]);
    }
    mean = numbers_of(inputs[at++]);
    variance = numbers_of(inputs[at]);
    if (step.is_affine) return;
    scale.assign(mean.size(), 1);
    shift.assign(mean.size(), 0);
  }

  double exact_factor(std::size_t i) const {
    return static_cast<double>(scale[i]) / std::sqrt(static_cast<double>(variance[i]) + static_cast<double>(epsilon));
  }
  float factor(std::size_t i, FoldArithmetic arithmetic) const {
    const float root = std::sqrt(variance[i] + epsilon);
    switch (arithmetic) {
      case FoldArithmetic::divide_by_root:
        return scale[i] / root;
      case FoldArithmetic::multiply_by_root:
        return scale[i] * (1 / root);
      default:
        return static_cast<float>(exact_factor(i));
    }
  }
};

float folded_bias(const Norm& norm, FoldArithmetic arithmetic, std::size_t i, float bias) {
  if (arithmetic == FoldArithmetic::in_double) {
    const double factor = norm.exact_factor(i);
    return static_cast<float>(static_cast<double>(bias) * factor +
                              (static_cast<double>(norm.shift[i]) - static_cast<double>(norm.mean[i]) * factor));
  }
  const float centred = bias - norm.mean[i];
  const float product = centred * norm.factor(i, arithmetic);
  return product + norm.shift[i];
}

}  // namespace

TensorData folded(const FoldStep& step, const std::vector<TensorData>& inputs) {
  const Norm norm(step, inputs);
  if (step.is_bias) {
    std::vector<float> result = step.has_bias ? numbers_of(inputs[0]) : std::vector<float>(norm.mean.size(), 0);
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = folded_bias(norm, step.arithmetic, i, result[i]);
    const auto count = static_cast<std::int64_t>(result.size());
    return {DType::float32, {count}, Bytes::copy_of(result.data(), result.size() * sizeof(float))};
  }
  const TensorData& weight = inputs[0];
  std::vector<float> result = numbers_of(weight);
  const auto axis = static_cast<std::size_t>(step.axis);
  const std::int64_t inner =
      std::accumulate(weight.shape.begin() + step.axis + 1, weight.shape.end(), std::int64_t{1}, std::multiplies());
  const std::int64_t length = weight.shape[axis];
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto channel = static_cast<std::size_t>(static_cast<std::int64_t>(i) / inner % length);
    if (step.arithmetic == FoldArithmetic::in_double) {
      result[i] = static_cast<float>(static_cast<double>(result[i]) * norm.exact_factor(channel));
    } else {
      result[i] = result[i] * norm.factor(channel, step.arithmetic);
    }
  }
  return {DType::float32, weight.shape, Bytes::copy_of(result.data(), result.size() * sizeof(float))};
}

}  // namespace whence::derivation
