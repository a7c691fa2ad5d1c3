#include "annotator/derivation/folded_vectors.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "annotator/derivation/folded_norms.h"
#include "annotator/program/tensor_values.h"

namespace whence::derivation {
namespace {

constexpr double most_error = 0.03;  // of the factors, relative to their sum: integers give them only roughly

Expression by_channel(ByChannelStep::Operation operation, std::int64_t axis, Expression tensor, Expression vector) {
  return {ByChannelStep{operation, axis}, {std::move(tensor), std::move(vector)}};
}

// Returns the factor in the expression of a weight; null if there is none.
const Expression* factor_of(const Expression& expression) {
  if (const auto* step = std::get_if<ByChannelStep>(&expression.step);
      step != nullptr && step->operation == ByChannelStep::Operation::multiply)
    return &expression.inputs[1];
  for (const Expression& input : expression.inputs) {
    if (const Expression* const found = factor_of(input)) return found;
  }
  return nullptr;
}

}  // namespace

std::vector<Expression> FoldedVectors::candidates(const Expression& weight, const TensorData& real,
                                                  const SampledTensor& tensor, std::int64_t axis) const {
  const std::vector<double> factors = factors_of(real, tensor, axis);
  std::vector<std::pair<double, Expression>> fits;
  for (std::size_t i = 0; i < weights_.tensors().size() && !factors.empty(); ++i) {
    const TensorData& data = weights_.tensors()[i].data;
    const std::int64_t count = data.element_count();
    if (!is_floating(data.dtype) || (count != 1 && count != static_cast<std::int64_t>(factors.size()))) continue;
    const auto elements = program::Elements::of(data);
    if (!elements) continue;
    double error = 0, sum = 0;
    for (std::size_t channel = 0; channel < factors.size(); ++channel) {
      const double factor = elements->number(count == 1 ? 0 : channel);
      if (std::isnan(factors[channel])) continue;
      error += std::abs(factors[channel] - factor);
      sum += std::abs(factor);
    }
    if (!(sum > 0 && error < most_error * sum)) continue;
    fits.emplace_back(error / sum, by_channel(ByChannelStep::Operation::multiply, axis, weight,
                                              {weights_.step_of(i, DType::float32)}));
  }
  std::ranges::stable_sort(fits, {}, [](const auto& fit) { return fit.first; });
  std::vector<Expression> found;
  for (auto& [error, expression] : fits) found.push_back(std::move(expression));
  return found;
}

bool FoldedVectors::is_scaled(const Expression& weight) { return factor_of(weight) != nullptr; }

std::vector<Expression> FoldedVectors::bias_candidates(const Expression& weight) const {
  const Expression* const factor = factor_of(weight);
  if (factor == nullptr) return {};
  const std::string name = bias_beside(weight, weights_);
  if (name.empty()) return {};
  const TensorData& bias = *weights_.find(name);
  if (bias.shape.size() != 1 || !is_floating(bias.dtype)) return {};
  const Expression own{ParameterStep{.name = name, .dtype = DType::float32, .dims = bias.shape}};
  const Expression scaled = by_channel(ByChannelStep::Operation::multiply, 0, own, *factor);
  std::vector<Expression> found = {scaled};
  for (std::size_t i = 0; i < weights_.tensors().size(); ++i) {
    const TensorData& data = weights_.tensors()[i].data;
    if (!is_floating(data.dtype) || data.element_count() != bias.element_count()) continue;
    found.push_back(by_channel(ByChannelStep::Operation::add, 0, scaled, {weights_.step_of(i, DType::float32)}));
  }
  return found;
}

}  // namespace whence::derivation
