#include "annotator/comparison/operator_results.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>

#include "annotator/comparison/fused_products.h"
#include "annotator/comparison/layout_results.h"
#include "annotator/comparison/numbers_of_node.h"
#include "annotator/comparison/small_values.h"
#include "annotator/comparison/window_results.h"

namespace whence::comparison {
namespace {

using graph::GraphNode;
using simplify::Constants;
using Results = std::optional<std::vector<TensorData>>;

constexpr std::size_t most_evaluated = std::size_t{1} << 21;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
double exact_gelu(double x) { return x * 0.5 * (1 + std::erf(x * std::sqrt(0.5))); }
double tanh_gelu(double x) {
  constexpr double cubic = 0.044715, two_over_pi = 0.63661977236758134;
  return x * 0.5 * (1 + std::tanh(std::sqrt(two_over_pi) * (x + cubic * x * x * x)));
}

// Functions of each element alone, with the numbers alpha and gamma or beta.
using Activation = double (*)(double x, double alpha, double beta);
struct ActivationRow {
  Activation function;
  double alpha = 0;  // if the node does not state it
  double beta = 0;
};

const ActivationRow* activation_of(std::string_view op_type) {
  constexpr double selu_alpha = 1.67326319217681884765625, selu_gamma = 1.05070102214813232421875;
  static const std::map<std::string_view, ActivationRow> rows = {
      {"Celu", {[](double x, double a, double) { return x > 0 ? x : a * std::expm1(x / a); }, 1}},
      {"Elu", {[](double x, double a, double) { return x > 0 ? x : a * std::expm1(x); }, 1}},
      {"HardSigmoid", {[](double x, double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); }, 0.2, 0.5}},
      {"HardSwish", {[](double x, double, double) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }}},
      {"LeakyRelu", {[](double x, double a, double) { return x < 0 ? a * x : x; }, 0.01}},
      {"Mish", {[](double x, double, double) { return x * std::tanh(softplus(x)); }}},
      {"QuickGelu", {[](double x, double a, double) { return x * sigmoid(a * x); }, 1.702}},
      {"Selu",
       {[](double x, double a, double g) { return g * (x > 0 ? x : a * std::expm1(x)); }, selu_alpha, selu_gamma}},
      {"Softsign", {[](double x, double, double) { return x / (1 + std::fabs(x)); }}},
      {"Swish", {[](double x, double a, double) { return x * sigmoid(a * x); }, 1}},
      {"ThresholdedRelu", {[](double x, double a, double) { return x > a ? x : 0; }, 1}},
  };
  const auto found = rows.find(op_type);
  return found == rows.end() ? nullptr : &found->second;
}

Results one(std::optional<Numbers> numbers) {
  if (!numbers || numbers->all.size() != static_cast<std::size_t>(element_count(numbers->shape))) return std::nullopt;
  return std::vector<TensorData>{tensor_of(*numbers)};
}

Results activated(const GraphNode& node, const Constants& inputs, const ActivationRow& row) {
  auto x = numbers_of(inputs, 0);
  if (!x || inputs.size() != 1) return std::nullopt;
  const double alpha = number_attribute(node, "alpha", row.alpha);
  const double beta = number_attribute(node, node.op_type == "Selu" ? "gamma" : "beta", row.beta);
  for (double& element : x->all) element = row.function(element, alpha, beta);
  return one(std::move(x));
}

Results gelu(const GraphNode& node, const Constants& inputs) {
  auto x = numbers_of(inputs, 0);
  if (!x || inputs.size() != 1) return std::nullopt;
  const bool is_tanh = text_attribute(node, "approximate", "none") == "tanh";
  for (double& element : x->all) element = is_tanh ? tanh_gelu(element) : exact_gelu(element);
  return one(std::move(x));
}

// BiasGelu and FastGelu of ONNX Runtime: the second input, if there is one, is added first.
Results biased_gelu(const GraphNode& node, const Constants& inputs) {
  GraphNode add;
  add.op_type = "Add";
  add.outputs = {0};
  const bool has_bias = inputs.size() > 1 && inputs[1] != nullptr;
  const auto sum = has_bias ? evaluate_small(add, {inputs[0], inputs[1]}) : std::optional(*inputs[0]);
  auto x = sum ? numbers_of({&*sum}, 0) : std::nullopt;
  if (!x) return std::nullopt;
  for (double& element : x->all) element = node.op_type == "FastGelu" ? tanh_gelu(element) : exact_gelu(element);
  return one(std::move(x));
}

// Returns the element for each position along the axis `channel`; a scalar or an absent input gives `otherwise` or the
// scalar. nullopt if the sizes differ.
std::optional<std::vector<double>> by_channel(const Constants& inputs, std::size_t slot, std::int64_t count,
                                              double otherwise) {
  const auto stated = numbers_of(inputs, slot);
  if (!stated) return std::vector<double>(static_cast<std::size_t>(count), otherwise);
  if (stated->all.size() == 1) return std::vector<double>(static_cast<std::size_t>(count), stated->all[0]);
  if (static_cast<std::int64_t>(stated->all.size()) != count) return std::nullopt;
  return stated->all;
}

// Subtracts the mean of each block of `size` elements, if asked, and divides by the root of the mean square.
void normalise(std::vector<double>& all, std::size_t size, double epsilon, bool subtracts_mean) {
  for (std::size_t begin = 0; size > 0 && begin + size <= all.size(); begin += size) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin),
               last = first + static_cast<std::ptrdiff_t>(size);
    const auto count = static_cast<double>(size);
    const double mean = subtracts_mean ? std::accumulate(first, last, 0.0) / count : 0;
    double squares = 0;
    for (auto each = first; each != last; ++each) squares += (*each - mean) * (*each - mean);
    const double root = std::sqrt(squares / count + epsilon);
    for (auto each = first; each != last; ++each) *each = (*each - mean) / root;
  }
}

Results layer_norm(const GraphNode& node, const Constants& inputs) {
  auto x = numbers_of(inputs, 0);
  if (!x || x->shape.empty()) return std::nullopt;
  const std::int64_t axis = node.int_attribute("axis", -1);
  const auto rank = static_cast<std::int64_t>(x->shape.size());
  const std::int64_t first = axis < 0 ? axis + rank : axis;
  if (first < 0 || first >= rank) return std::nullopt;
  const std::size_t size = count_of_axes(x->shape, static_cast<std::size_t>(first), x->shape.size());
  const auto scale = by_channel(inputs, 1, static_cast<std::int64_t>(size), 1);
  const auto shift = by_channel(inputs, 2, static_cast<std::int64_t>(size), 0);
  if (!scale || !shift || size == 0) return std::nullopt;
  normalise(x->all, size, number_attribute(node, "epsilon", 1e-5), node.op_type == "LayerNormalization");
  for (std::size_t i = 0; i < x->all.size(); ++i) x->all[i] = x->all[i] * (*scale)[i % size] + (*shift)[i % size];
  return one(std::move(x));
}

// InstanceNormalization and GroupNormalization. A group has several channels, and a scale for each channel, or before
// opset 21 for each group.
Results channel_norm(const GraphNode& node, const Constants& inputs) {
  auto x = numbers_of(inputs, 0);
  if (!x || x->shape.size() < 2) return std::nullopt;
  const std::int64_t channels = x->shape[1];
  const std::int64_t groups = node.op_type == "GroupNormalization" ? node.int_attribute("num_groups", 0) : channels;
  if (groups < 1 || channels % groups != 0) return std::nullopt;
  const std::size_t inner = count_of_axes(x->shape, 2, x->shape.size());
  normalise(x->all, inner * static_cast<std::size_t>(channels / groups), number_attribute(node, "epsilon", 1e-5), true);
  const auto numbers = numbers_of(inputs, 1);
  const bool is_by_group = numbers && static_cast<std::int64_t>(numbers->all.size()) == groups;
  const std::int64_t count = is_by_group ? groups : channels;
  const auto scale = by_channel(inputs, 1, count, 1), shift = by_channel(inputs, 2, count, 0);
  if (!scale || !shift || inner == 0) return std::nullopt;
  for (std::size_t i = 0; i < x->all.size(); ++i) {
    const std::size_t channel = i / inner % static_cast<std::size_t>(channels);
    const std::size_t at = is_by_group ? channel / static_cast<std::size_t>(channels / groups) : channel;
    x->all[i] = x->all[i] * (*scale)[at] + (*shift)[at];
  }
  return one(std::move(x));
}

Results batch_norm(const GraphNode& node, const Constants& inputs) {
  auto x = numbers_of(inputs, 0);
  if (!x || x->shape.size() < 2 || node.int_attribute("training_mode", 0) != 0) return std::nullopt;
  constexpr std::size_t mean_slot = 3, variance_slot = 4;
  const std::int64_t channels = x->shape[1];
  const auto scale = by_channel(inputs, 1, channels, 1), shift = by_channel(inputs, 2, channels, 0);
  const auto mean = by_channel(inputs, mean_slot, channels, 0),
             variance = by_channel(inputs, variance_slot, channels, 1);
  const std::size_t inner = count_of_axes(x->shape, 2, x->shape.size());
  if (!scale || !shift || !mean || !variance || inner == 0) return std::nullopt;
  const double epsilon = number_attribute(node, "epsilon", 1e-5);
  for (std::size_t i = 0; i < x->all.size(); ++i) {
    const std::size_t at = i / inner % static_cast<std::size_t>(channels);
    x->all[i] = (x->all[i] - (*mean)[at]) / std::sqrt((*variance)[at] + epsilon) * (*scale)[at] + (*shift)[at];
  }
  return one(std::move(x));
}

Results prelu(const Constants& inputs) {
  auto x = numbers_of(inputs, 0);
  const auto slope = numbers_of(inputs, 1);
  if (!x || !slope || slope->shape.size() > x->shape.size()) return std::nullopt;
  const std::size_t missing = x->shape.size() - slope->shape.size();
  for (std::size_t i = 0; i < x->all.size(); ++i) {
    std::size_t rest = i, at = 0, stride = 1;
    for (std::size_t axis = x->shape.size(); axis-- > 0;) {
      const std::size_t place = rest % static_cast<std::size_t>(x->shape[axis]);
      rest /= static_cast<std::size_t>(x->shape[axis]);
      if (axis < missing) continue;
      const std::int64_t size = slope->shape[axis - missing];
      if (size != 1 && size != x->shape[axis]) return std::nullopt;
      if (size != 1) at += place * stride;
      stride *= static_cast<std::size_t>(size);
    }
    if (x->all[i] < 0) x->all[i] *= slope->all[at];
  }
  return one(std::move(x));
}

Results split(const GraphNode& node, const Constants& inputs) {
  if (inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  const TensorData& data = *inputs[0];
  const auto x = numbers_of(inputs, 0);
  const auto rank = static_cast<std::int64_t>(data.shape.size());
  const std::int64_t stated = node.int_attribute("axis", 0), axis = stated < 0 ? stated + rank : stated;
  if (!x || axis < 0 || axis >= rank) return std::nullopt;
  const auto at = static_cast<std::size_t>(axis);
  const auto parts = static_cast<std::int64_t>(node.outputs.size());
  const std::int64_t part = (data.shape[at] + parts - 1) / parts;
  Sizes64 sizes = integers_attribute(node, "split", Sizes64(static_cast<std::size_t>(parts), part));
  if (const auto list = numbers_of(inputs, 1))
    sizes.assign(list->all.begin(), list->all.end());
  else if (node.find("split") == nullptr)
    sizes.back() = data.shape[at] - part * (parts - 1);
  const bool fits = static_cast<std::int64_t>(sizes.size()) == parts &&
                    std::ranges::all_of(sizes, [](std::int64_t size) { return size >= 0; }) &&
                    std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == data.shape[at];
  if (!fits) return std::nullopt;
  const std::size_t outer = count_of_axes(data.shape, 0, at),
                    inner = count_of_axes(data.shape, at + 1, data.shape.size());
  std::vector<TensorData> results;
  std::size_t begin = 0;
  for (const std::int64_t size : sizes) {
    Numbers result{data.shape, {}};
    result.shape[at] = size;
    const std::size_t length = static_cast<std::size_t>(size) * inner;
    for (std::size_t o = 0; o < outer; ++o) {
      const auto first =
          x->all.begin() + static_cast<std::ptrdiff_t>(o * static_cast<std::size_t>(data.shape[at]) * inner + begin);
      result.all.insert(result.all.end(), first, first + static_cast<std::ptrdiff_t>(length));
    }
    begin += length;
    results.push_back(tensor_of(result, data.dtype));
  }
  return results;
}

// The largest or smallest elements along an axis with their places: TopK, ArgMax and ArgMin.
Results chosen(const GraphNode& node, const Constants& inputs) {
  const auto x = numbers_of(inputs, 0);
  const bool is_top = node.op_type == "TopK";
  const auto count = numbers_of(inputs, 1);
  if (!x || x->shape.empty() || (is_top && (!count || count->all.size() != 1))) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(x->shape.size());
  const std::int64_t stated = node.int_attribute("axis", is_top ? -1 : 0), axis = stated < 0 ? stated + rank : stated;
  if (axis < 0 || axis >= rank || node.int_attribute("select_last_index", 0) != 0) return std::nullopt;
  const auto at = static_cast<std::size_t>(axis);
  const auto length = static_cast<std::size_t>(x->shape[at]);
  const std::int64_t taken = is_top ? static_cast<std::int64_t>(count->all[0]) : 1;
  if (taken < 1 || taken > x->shape[at] || node.int_attribute("sorted", 1) == 0) return std::nullopt;
  const bool is_largest = is_top ? node.int_attribute("largest", 1) != 0 : node.op_type == "ArgMax";
  const std::size_t outer = count_of_axes(x->shape, 0, at), inner = count_of_axes(x->shape, at + 1, x->shape.size());
  const auto many = static_cast<std::size_t>(taken);
  Numbers values{x->shape, std::vector<double>(outer * many * inner)};
  values.shape[at] = taken;
  Numbers places = values;
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < inner; ++i) {
      const auto element = [&](std::size_t k) { return x->all[(o * length + k) * inner + i]; };
      std::vector<std::size_t> order(length);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        return is_largest ? element(a) > element(b) : element(a) < element(b);
      });
      for (std::size_t k = 0; k < many; ++k) {
        values.all[(o * many + k) * inner + i] = element(order[k]);
        places.all[(o * many + k) * inner + i] = static_cast<double>(order[k]);
      }
    }
  }
  if (is_top) return std::vector<TensorData>{tensor_of(values), tensor_of(places, DType::int64)};
  if (node.int_attribute("keepdims", 1) == 0) places.shape.erase(places.shape.begin() + axis);
  return std::vector<TensorData>{tensor_of(places, DType::int64)};
}

Results scattered(const GraphNode& node, const Constants& inputs) {
  auto data = numbers_of(inputs, 0);
  const auto indices = numbers_of(inputs, 1), updates = numbers_of(inputs, 2);
  if (!data || !indices || !updates || indices->shape != updates->shape ||
      data->shape.size() != indices->shape.size() || text_attribute(node, "reduction", "none") != "none" ||
      data->shape.empty())
    return std::nullopt;
  const auto rank = data->shape.size();
  const std::int64_t stated = node.int_attribute("axis", 0);
  const auto axis = static_cast<std::size_t>(stated < 0 ? stated + static_cast<std::int64_t>(rank) : stated);
  if (axis >= rank) return std::nullopt;
  for (std::size_t i = 0; i < indices->all.size(); ++i) {
    std::size_t rest = i, at = 0, stride = 1;
    for (std::size_t k = rank; k-- > 0;) {
      auto place = static_cast<std::int64_t>(rest % static_cast<std::size_t>(indices->shape[k]));
      rest /= static_cast<std::size_t>(indices->shape[k]);
      if (k == axis) place = static_cast<std::int64_t>(indices->all[i]);
      if (place < 0) place += data->shape[k];
      if (place < 0 || place >= data->shape[k]) return std::nullopt;
      at += static_cast<std::size_t>(place) * stride;
      stride *= static_cast<std::size_t>(data->shape[k]);
    }
    data->all[at] = updates->all[i];
  }
  return std::vector<TensorData>{tensor_of(*data, inputs[0]->dtype)};
}

// The places of the elements that are not zero, by axis.
Results places_of_others(const Constants& inputs) {
  const auto x = numbers_of(inputs, 0);
  if (!x || x->shape.empty()) return std::nullopt;
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < x->all.size(); ++i) {
    if (x->all[i] != 0) found.push_back(i);
  }
  Numbers places{{static_cast<std::int64_t>(x->shape.size()), static_cast<std::int64_t>(found.size())}, {}};
  for (std::size_t axis = 0; axis < x->shape.size(); ++axis) {
    const std::size_t inner = count_of_axes(x->shape, axis + 1, x->shape.size());
    for (const std::size_t at : found)
      places.all.push_back(static_cast<double>(at / inner % static_cast<std::size_t>(x->shape[axis])));
  }
  return std::vector<TensorData>{tensor_of(places, DType::int64)};
}

// Integers times a scale, for all elements or by the positions of an axis.
Results dequantised(const GraphNode& node, const Constants& inputs) {
  auto x = numbers_of(inputs, 0);
  const auto scale = numbers_of(inputs, 1);
  if (!x || !scale || node.int_attribute("block_size", 0) != 0) return std::nullopt;
  const bool is_by_axis = scale->all.size() != 1;
  const std::int64_t stated = node.int_attribute("axis", 1);
  const auto rank = static_cast<std::int64_t>(x->shape.size());
  const std::int64_t axis = is_by_axis ? (stated < 0 ? stated + rank : stated) : 0;
  if (is_by_axis && (axis < 0 || axis >= rank)) return std::nullopt;
  const std::int64_t count = is_by_axis ? x->shape[static_cast<std::size_t>(axis)] : 1;
  const auto scales = by_channel(inputs, 1, count, 1), zeros = by_channel(inputs, 2, count, 0);
  if (!scales || !zeros || count == 0) return std::nullopt;
  // Quantisers write such scales for masks with infinite numbers.
  if (!std::ranges::all_of(*scales, [](double each) { return std::isfinite(each); })) return std::nullopt;
  const std::size_t inner =
      is_by_axis ? count_of_axes(x->shape, static_cast<std::size_t>(axis) + 1, x->shape.size()) : 1;
  for (std::size_t i = 0; i < x->all.size() && inner > 0; ++i) {
    const std::size_t at = is_by_axis ? i / inner % static_cast<std::size_t>(count) : 0;
    x->all[i] = (x->all[i] - (*zeros)[at]) * (*scales)[at];
  }
  return one(std::move(x));
}

Results flattened(const GraphNode& node, const TensorData& data) {
  const auto rank = static_cast<std::int64_t>(data.shape.size());
  const std::int64_t stated = node.int_attribute("axis", 1), axis = stated < 0 ? stated + rank : stated;
  if (axis < 0 || axis > rank) return std::nullopt;
  const auto at = static_cast<std::size_t>(axis);
  const Sizes64 shape = {static_cast<std::int64_t>(count_of_axes(data.shape, 0, at)),
                         static_cast<std::int64_t>(count_of_axes(data.shape, at, data.shape.size()))};
  return std::vector<TensorData>{{data.dtype, shape, data.bytes}};
}

Results moved(const GraphNode& node, const Constants& inputs) {
  auto result = blocks_moved(node, *inputs[0]);
  return result ? Results({std::move(*result)}) : std::nullopt;
}

Results multiplied(const GraphNode& node, const Constants& inputs) {
  if (inputs.size() != 2 || inputs[1] == nullptr) return std::nullopt;
  auto result = fused_product(node, *inputs[0], *inputs[1]);
  return result ? Results({std::move(*result)}) : std::nullopt;
}

using Compute = Results (*)(const GraphNode& node, const Constants& inputs);

const std::map<std::string_view, Compute>& computed() {
  static constexpr auto pool = [](const GraphNode& node, const Constants& inputs) -> Results {
    const auto x = numbers_of(inputs, 0);
    return x && node.outputs.size() == 1 ? one(pooled(node, *x)) : std::nullopt;
  };
  static const std::map<std::string_view, Compute> all = {
      {"ArgMax", chosen},
      {"ArgMin", chosen},
      {"AveragePool", pool},
      {"BatchNormalization", batch_norm},
      {"BiasGelu", biased_gelu},
      {"DepthToSpace", moved},
      {"DequantizeLinear", dequantised},
      {"FastGelu", biased_gelu},
      {"Gelu", gelu},
      {"FusedMatMul", multiplied},
      {"GlobalAveragePool", pool},
      {"GlobalMaxPool", pool},
      {"GroupNormalization", channel_norm},
      {"InstanceNormalization", channel_norm},
      {"LayerNormalization", layer_norm},
      {"MaxPool", pool},
      {"RMSNormalization", layer_norm},
      {"ScatterElements", scattered},
      {"SimplifiedLayerNormalization", layer_norm},
      {"SpaceToDepth", moved},
      {"Split", split},
      {"TopK", chosen},
      {"NonZero", [](const GraphNode&, const Constants& inputs) { return places_of_others(inputs); }},
      {"PRelu", [](const GraphNode&, const Constants& inputs) { return prelu(inputs); }},
      {"Flatten", [](const GraphNode& node, const Constants& inputs) { return flattened(node, *inputs[0]); }},
  };
  return all;
}

Results of_known(const GraphNode& node, const Constants& inputs) {
  if (const ActivationRow* const row = activation_of(node.op_type)) return activated(node, inputs, *row);
  if (const auto found = computed().find(node.op_type); found != computed().end()) return found->second(node, inputs);
  if (auto result = evaluate_small(node, inputs)) return std::vector<TensorData>{std::move(*result)};
  if (node.op_type == "MatMul" && inputs.size() == 2 && inputs[1] != nullptr) {
    auto product = matrix_product(*inputs[0], *inputs[1]);
    return product ? Results({std::move(*product)}) : std::nullopt;
  }
  const auto x = numbers_of(inputs, 0);
  if (!x || !is_floating(inputs[0]->dtype)) return std::nullopt;
  if (node.op_type == "Resize") return one(interpolated(node, *x, inputs));
  const auto pads = numbers_of(inputs, 1);
  const bool has_pads = node.op_type == "Pad" && pads && (inputs.size() < 4 || inputs[3] == nullptr);
  return has_pads ? one(padded(node, *x, {pads->all.begin(), pads->all.end()})) : std::nullopt;
}

}  // namespace

Results results_of(const GraphNode& node, const Constants& inputs) {
  static constexpr std::string_view runtime = "com.microsoft";
  const bool is_known = node.domain.empty() || node.domain == "ai.onnx" || node.domain == runtime;
  if (!is_known || inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  const auto is_large = [](const TensorData* input) {
    return input != nullptr && static_cast<std::size_t>(input->element_count()) > most_evaluated;
  };
  if (std::ranges::any_of(inputs, is_large)) return std::nullopt;
  try {
    return of_known(node, inputs);
  } catch (const std::bad_variant_access&) {
    return std::nullopt;  // an attribute of another type than the operator has
  }
}

}  // namespace whence::comparison
