#include "annotator/derivation/folded_norms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "annotator/program/tensor_values.h"
#include "schema/element_count.h"

namespace whence::derivation {
namespace {

constexpr std::string_view mean_ending = ".running_mean";
// The epsilons of PyTorch's layers and of model libraries.
constexpr std::array epsilons = {1e-5, 1e-3, 1e-6, 1e-4, 1e-2, 1e-8, 1e-7, 1e-12, 2e-5, 0.0};
constexpr double max_error = 0.03;  // of the factors, relative to their sum: integers give them only roughly
constexpr double rounding = 1e-7;   // error of the factors of a weight in single precision
constexpr std::int64_t max_samples = 256;

double number(const TensorData* data, std::size_t i, double otherwise) {
  return data == nullptr ? otherwise : program::Elements::of(*data)->number(i);
}

}  // namespace

std::vector<double> factors_of(const TensorData& real, const SampledTensor& tensor, std::int64_t axis) {
  const auto elements = program::Elements::of(real);
  const auto at = static_cast<std::size_t>(axis);
  if (!elements || at >= real.shape.size()) return {};
  const std::int64_t outer =
      std::accumulate(real.shape.begin(), real.shape.begin() + axis, std::int64_t{1}, std::multiplies());
  const std::int64_t inner =
      std::accumulate(real.shape.begin() + axis + 1, real.shape.end(), std::int64_t{1}, std::multiplies());
  const std::int64_t channels = real.shape[at], size = outer * inner, taken = std::min(size, max_samples);
  std::vector<double> factors;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    double product = 0, square = 0;
    for (std::int64_t i = 0; i < taken; ++i) {
      const std::int64_t chosen = i * size / taken;
      const std::int64_t element = (chosen / inner * channels + channel) * inner + chosen % inner;
      const double ours = elements->number(static_cast<std::size_t>(element)), theirs = tensor.number(element);
      product += ours * theirs;
      square += ours * ours;
    }
    factors.push_back(square > 0 ? product / square : std::nan(""));
  }
  return factors;
}

std::string bias_beside(const Expression& weight, const Weights& weights) {
  std::string parameter;
  for_each_parameter(weight, [&](const ParameterStep& step) {
    if (parameter.empty()) parameter = step.is_computed() ? step.parameters.front() : step.name;
  });
  std::string bias;
  std::size_t dot = parameter.rfind('.');
  do {
    bias = (dot == std::string::npos ? "" : parameter.substr(0, dot + 1)) + "bias";
    if (dot == std::string::npos || dot == 0) break;
    dot = parameter.rfind('.', dot - 1);
  } while (weights.find(bias) == nullptr && parameter.find(".parametrizations.") != std::string::npos);
  return weights.find(bias) == nullptr ? "" : bias;
}

FoldedNorms::FoldedNorms(const Weights& weights, const std::vector<NormPair>& pairs)
    : weights_(weights), pairs_(pairs) {
  for (const auto& tensor : weights.tensors()) {
    if (!tensor.name.ends_with(mean_ending) || tensor.data.shape.size() != 1) continue;
    Norm norm;
    norm.module = tensor.name.substr(0, tensor.name.size() - mean_ending.size());
    norm.channels = tensor.data.shape[0];
    const auto part = [&](std::string_view name) -> const TensorData* {
      const TensorData* const found = weights.find(norm.module + std::string(name));
      return found != nullptr && found->shape == tensor.data.shape && program::Elements::of(*found) ? found : nullptr;
    };
    norm.mean = part(mean_ending);
    norm.variance = part(".running_var");
    norm.scale = part(".weight");
    norm.shift = part(".bias");
    if (norm.mean != nullptr && norm.variance != nullptr && (norm.scale == nullptr) == (norm.shift == nullptr))
      norms_.push_back(norm);
  }
}

Expression FoldedNorms::parameter(const std::string& name) const {
  return {ParameterStep{.name = name, .dtype = DType::float32, .dims = weights_.find(name)->shape}};
}

std::vector<Expression> FoldedNorms::inputs_of(const Norm& norm) const {
  std::vector<Expression> inputs;
  if (norm.scale != nullptr) {
    inputs.push_back(parameter(norm.module + ".weight"));
    inputs.push_back(parameter(norm.module + ".bias"));
  }
  inputs.push_back(parameter(norm.module + std::string(mean_ending)));
  inputs.push_back(parameter(norm.module + ".running_var"));
  return inputs;
}

std::vector<Expression> FoldedNorms::candidates(const Expression& weight, const TensorData& real,
                                                const SampledTensor& tensor, std::int64_t axis) const {
  if (norms_.empty()) return {};
  const std::vector<double> factors = factors_of(real, tensor, axis);
  struct Fit {
    const Norm* norm = nullptr;
    double epsilon = 0, error = 0;
  };
  std::vector<Fit> fits;
  for (const Norm& norm : norms_) {
    if (norm.channels != static_cast<std::int64_t>(factors.size())) continue;
    for (const double epsilon : epsilons) {
      double error = 0, sum = 0;
      for (std::size_t i = 0; i < factors.size(); ++i) {
        const double factor = number(norm.scale, i, 1) / std::sqrt(number(norm.variance, i, 1) + epsilon);
        if (std::isnan(factors[i])) continue;
        error += std::abs(factors[i] - factor);
        sum += std::abs(factor);
      }
      if (sum > 0 && error < max_error * sum) fits.push_back({&norm, epsilon, error / sum});
    }
  }
  if (fits.empty()) return {};
  const Fit best = *std::ranges::min_element(fits, {}, &Fit::error);
  std::vector<Expression> found;
  for (const Fit& fit : fits) {
    // Integers do not distinguish two epsilons, so each that fits is a candidate, in the order of their use.
    if (fit.norm != best.norm || fit.error > 2 * best.error + rounding) continue;
    for (const FoldArithmetic arithmetic : fold_arithmetics) {
      Expression folded{
          FoldStep{
              .arithmetic = arithmetic, .epsilon = fit.epsilon, .is_affine = fit.norm->scale != nullptr, .axis = axis},
          {weight}};
      std::ranges::move(inputs_of(*fit.norm), std::back_inserter(folded.inputs));
      found.push_back(std::move(folded));
    }
  }
  return found;
}

std::vector<Expression> FoldedNorms::pairs_of(const std::vector<std::int64_t>& dims) const {
  std::vector<Expression> found;
  for (const NormPair& pair : pairs_) {
    const TensorData* const weight = weights_.find(pair.weight);
    if (weight == nullptr || weight->shape != dims || dims.empty()) continue;
    std::vector<std::string> names = {pair.mean, pair.variance};
    if (!pair.scale.empty()) names = {pair.scale, pair.shift, pair.mean, pair.variance};
    const bool fits = std::ranges::all_of(names, [&](const std::string& name) {
      const TensorData* const data = weights_.find(name);
      return data != nullptr && data->shape == std::vector<std::int64_t>{dims[0]};
    });
    if (!fits) continue;
    for (const FoldArithmetic arithmetic : fold_arithmetics) {
      const FoldStep step{
          .arithmetic = arithmetic, .epsilon = pair.epsilon, .is_affine = !pair.scale.empty(), .axis = 0};
      Expression folded{step, {parameter(pair.weight)}};
      for (const std::string& name : names) folded.inputs.push_back(parameter(name));
      found.push_back(std::move(folded));
    }
  }
  return found;
}

std::string FoldedNorms::folded_weight(const Expression& weight) {
  std::string name;
  if (const auto* step = std::get_if<FoldStep>(&weight.step); step != nullptr && !step->is_bias) {
    for_each_parameter(weight.inputs[0], [&](const ParameterStep& parameter) { name = parameter.name; });
  }
  for (const Expression& input : weight.inputs) {
    if (name.empty()) name = folded_weight(input);
  }
  return name;
}

std::vector<Expression> FoldedNorms::bias_candidates(const Expression& weight) const {
  std::optional<FoldStep> fold;
  std::vector<Expression> norm_inputs;
  const auto visit = [&](const auto& self, const Expression& expression) -> void {
    if (const auto* step = std::get_if<FoldStep>(&expression.step); step != nullptr && !step->is_bias) {
      fold = *step;
      norm_inputs.assign(expression.inputs.begin() + 1, expression.inputs.end());
    }
    for (const Expression& input : expression.inputs) self(self, input);
  };
  visit(visit, weight);
  std::vector<Expression> found;
  const std::string bias = bias_beside(weight, weights_);
  const bool has_bias = !bias.empty();
  if (!fold) {
    if (has_bias) found.push_back(parameter(bias));
    return found;
  }
  for (const FoldArithmetic arithmetic : fold_arithmetics) {
    FoldStep step = *fold;
    step.arithmetic = arithmetic;
    step.is_bias = true;
    step.has_bias = has_bias;
    Expression folded{step, {}};
    if (has_bias) folded.inputs.push_back(parameter(bias));
    folded.inputs.insert(folded.inputs.end(), norm_inputs.begin(), norm_inputs.end());
    found.push_back(std::move(folded));
  }
  return found;
}

}  // namespace whence::derivation
