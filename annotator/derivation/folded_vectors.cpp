#include "annotator/derivation/folded_vectors.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "annotator/derivation/folded_norms.h"
#include "annotator/derivation/lines.h"
#include "annotator/program/tensor_values.h"

namespace whence::derivation {
namespace {

constexpr double most_error = 0.03;  // of the factors, relative to their sum: integers give them only roughly

Expression by_channel(ByChannelStep::Operation operation, std::int64_t axis, Expression tensor, Expression vector) {
  return {ByChannelStep{operation, axis}, {std::move(tensor), std::move(vector)}};
}

}  // namespace

std::vector<Expression> FoldedVectors::candidates(const Expression& weight, const TensorData& real,
                                                  const SampledTensor& tensor, std::int64_t axis) const {
  const std::vector<double> factors = factors_of(real, tensor, axis);
  std::vector<std::pair<double, Expression>> fits;
  // Adds a factor if it explains those of the tensor. `number_of`: the number for a channel.
  const auto try_factor = [&](const auto& number_of, const Expression& factor) {
    double error = 0, sum = 0;
    for (std::size_t channel = 0; channel < factors.size(); ++channel) {
      if (std::isnan(factors[channel])) continue;
      error += std::abs(factors[channel] - number_of(channel));
      sum += std::abs(number_of(channel));
    }
    if (sum > 0 && error < most_error * sum)
      fits.emplace_back(error / sum, by_channel(ByChannelStep::Operation::multiply, axis, weight, factor));
  };
  for (std::size_t i = 0; i < weights_.tensors().size() && !factors.empty(); ++i) {
    const TensorData& data = weights_.tensors()[i].data;
    const std::int64_t count = data.element_count();
    if (!is_floating(data.dtype) || (count != 1 && count != static_cast<std::int64_t>(factors.size()))) continue;
    const auto elements = program::Elements::of(data);
    if (!elements) continue;
    try_factor([&](std::size_t channel) { return elements->number(count == 1 ? 0 : channel); },
               {weights_.step_of(i, DType::float32)});
  }
  for (const float number : numbers_of(weight)) {
    if (!factors.empty() && number != 1) try_factor([&](std::size_t) { return number; }, {NumberStep{number}});
  }
  std::ranges::stable_sort(fits, {}, [](const auto& fit) { return fit.first; });
  std::vector<Expression> found;
  for (auto& [error, expression] : fits) found.push_back(std::move(expression));
  return found;
}

std::set<float> FoldedVectors::numbers_of(const Expression& weight) const {
  std::set<float> numbers;
  for (const ProductChain& chain : chains_) {
    if (!chain.number || weights_.find(chain.weight) == nullptr) continue;
    const std::string& name = weights_.tensor_name(chain.weight);
    for_each_parameter(weight, [&](const ParameterStep& step) {
      if (step.is_computed() || weights_.tensor_name(step.name) != name) return;
      numbers.insert(*chain.number);
      // Exporters multiply both operands of an attention by the root of its scale.
      if (*chain.number > 0) numbers.insert(std::sqrt(*chain.number));
    });
  }
  return numbers;
}

std::vector<Expression> FoldedVectors::scaled_weights(const std::vector<std::int64_t>& dims) const {
  std::vector<Expression> found;
  std::set<std::pair<std::string, std::string>> known;
  for (const ProductChain& chain : chains_) {
    if (chain.factor.empty() || !known.emplace(chain.weight, chain.factor).second) continue;
    const TensorData *const weight = weights_.find(chain.weight), *const factor = weights_.find(chain.factor);
    if (weight == nullptr || factor == nullptr || dims.size() < 2) continue;
    const auto leaf = [](const std::string& name, const TensorData& data) {
      return Expression{ParameterStep{.name = name, .dtype = DType::float32, .dims = data.shape}};
    };
    const auto add = [&](Expression own, std::size_t axis) {
      if (factor->element_count() != 1 && factor->element_count() != dims[axis]) return;
      found.push_back(by_channel(ByChannelStep::Operation::multiply, static_cast<std::int64_t>(axis), std::move(own),
                                 leaf(chain.factor, *factor)));
    };
    const bool is_matrix = weight->shape.size() == 2;
    if (weight->shape == dims) add(leaf(chain.weight, *weight), 0);
    if (is_matrix && dims == std::vector{weight->shape[1], weight->shape[0]})
      add(transposed(leaf(chain.weight, *weight)), 1);
  }
  return found;
}

const Expression* FoldedVectors::factor_of(const Expression& expression) {
  if (const auto* step = std::get_if<ByChannelStep>(&expression.step);
      step != nullptr && step->operation == ByChannelStep::Operation::multiply)
    return &expression.inputs[1];
  for (const Expression& input : expression.inputs) {
    if (const Expression* const found = factor_of(input)) return found;
  }
  return nullptr;
}

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
