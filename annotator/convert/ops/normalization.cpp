// Normalisation: batch, layer, group, instance and RMS norm, and weight normalisation. If the opset lacks the operator,
// its definition is written as separate nodes.
#include <algorithm>
#include <numeric>
#include <optional>

#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"
#include "annotator/convert/weights.h"

namespace whence::convert {
namespace {

float epsilon(Ctx& c, std::string_view argument = "eps") { return static_cast<float>(c.number(argument)); }

// Returns the argument, or a constant of ones or zeros if it is None, which PyTorch allows and ONNX does not.
Val weight_or(Ctx& c, std::string_view argument, const Ints& shape, double value) {
  if (const Val weight = c.optional_tensor(argument)) return weight;
  c.table_size(shape);
  return c.constant_tensor(filled(shape, value, c.output_dtype()));
}

// Returns the argument, or a one or zero for each channel.
Val per_channel_or(Ctx& c, std::string_view argument, Val x, double value) {
  if (const Val weight = c.optional_tensor(argument)) return weight;
  if (const auto size = c.static_dim(x, 1)) {
    c.table_size({*size});
    return c.constant_tensor(filled({*size}, value, c.output_dtype()));
  }
  return c.emit("Expand", {c.constant_number(value, c.output_dtype()), c.to_vector({c.dim_of(x, 1)})});
}

std::int64_t channels(Ctx& c, Val x) {
  if (const auto size = c.static_dim(x, 1)) return *size;
  c.refuse("the number of channels is dynamic", "keep axis 1 of the input fixed when exporting");
}

// x * rsqrt(mean of x^2 over `axes` + eps)
Val divide_by_rms(Ctx& c, Val x, const Ints& axes, double eps, DType dtype) {
  const Val mean_square = reduce(c, "ReduceMean", c.emit("Mul", {x, x}), axes, true);
  const Val rms = c.emit("Sqrt", {c.emit("Add", {mean_square, c.constant_number(eps, dtype)})});
  return c.emit("Div", {x, rms});
}

// (x - mean) / sqrt(var + eps), both over `axes`
Val standardize(Ctx& c, Val x, const Ints& axes, double eps) {
  return divide_by_rms(c, c.emit("Sub", {x, reduce(c, "ReduceMean", x, axes, true)}), axes, eps, c.output_dtype());
}

// x * weight + bias, each only if present
Val scale_and_shift(Ctx& c, Val x, Val weight, Val bias) {
  if (weight) x = c.emit("Mul", {x, weight});
  return bias ? c.emit("Add", {x, bias}) : x;
}

// The last `count` axes, counted from the end.
Ints trailing_axes(std::size_t count) {
  Ints axes(count);
  std::iota(axes.begin(), axes.end(), -static_cast<std::int64_t>(count));
  return axes;
}

// ---- batch norm: [N, C, *], statistics per channel ----------------------------------------------------------------

Ints all_but_channels(Ctx& c, Val x) {
  Ints axes{0};
  for (int axis = 2; axis < c.rank(x); ++axis) axes.push_back(axis);
  return axes;
}

std::vector<Val> batch_norm_inputs(Ctx& c, Val x) {
  return {x, per_channel_or(c, "weight", x, 1), per_channel_or(c, "bias", x, 0), c.tensor("running_mean"),
          c.tensor("running_var")};
}

// Uses running statistics, as in evaluation.
Val batch_norm_running(Ctx& c, Val x, std::string_view eps) {
  return c.emit("BatchNormalization", batch_norm_inputs(c, x), {{"epsilon", epsilon(c, eps)}});
}

// Uses the batch's own statistics. Nothing reads the running statistics that the node updates: ONNX's variance differs.
Val batch_norm_training(Ctx& c, Val x, std::string_view eps) {
  return c.emit_many("BatchNormalization", batch_norm_inputs(c, x),
                     {{"epsilon", epsilon(c, eps)},
                      {"momentum", static_cast<float>(1 - c.number("momentum"))},
                      {"training_mode", std::int64_t{1}}},
                     3)[0];
}

// Returns true for a layer that has seen no data. ONNX Runtime stores equal constants once and updates running
// statistics in place, so an update of statistics of 0 and 1 would also change biases and weights of 0 and 1, even of
// other layers.
bool fresh_statistics(Ctx& c) {
  const auto uniform = [&](std::string_view name) {
    const TensorData* data = c.constant(c.tensor(name));
    if (data == nullptr || data->element_count() < 1) return false;
    const auto bytes = data->bytes.in_memory().value();
    const std::size_t size = bytes.size() / static_cast<std::size_t>(data->element_count());
    return std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(size), bytes.end(), bytes.begin());
  };
  return uniform("running_mean") || uniform("running_var");
}

// Uses the batch's own statistics, written as separate nodes.
Val batch_norm_decomposed(Ctx& c, Val x, std::string_view eps) {
  const int rank = c.rank(x);
  const Ints axes = all_but_channels(c, x);
  const Val weight = c.optional_tensor("weight"), bias = c.optional_tensor("bias");
  const Val normal = standardize(c, x, axes, c.number(eps));
  return scale_and_shift(c, normal, weight ? per_channel(c, weight, rank - 2) : absent,
                         bias ? per_channel(c, bias, rank - 2) : absent);
}

// Uses the batch's own statistics, as in training or without running statistics.
Val batch_norm_batch(Ctx& c, Val x, std::string_view eps) {
  constexpr int with_training_mode = 14;
  const bool has_running = c.schema().find("running_mean") && c.has("running_mean") && c.has("running_var");
  const bool as_operator = has_running && c.opset() >= with_training_mode && !fresh_statistics(c);
  return as_operator ? batch_norm_training(c, x, eps) : batch_norm_decomposed(c, x, eps);
}

Val batch_norm_result(Ctx& c, std::string_view eps) {
  const Val x = c.tensor("input");
  const bool own_statistics = c.schema().find("training") && c.flag("training");
  return own_statistics ? batch_norm_batch(c, x, eps) : batch_norm_running(c, x, eps);
}

void batch_norm(Ctx& c) { c.yield(batch_norm_result(c, "eps")); }

// Mean and variance over `axes`; `keep` keeps these axes with size 1.
struct Statistics {
  Val mean, variance;
};

Statistics statistics_over(Ctx& c, Val x, const Ints& axes, bool keep = false) {
  const DType dtype = c.output_dtype();
  const Val mean = c.typed(reduce(c, "ReduceMean", x, axes, true), dtype);
  const Val centred = c.typed(c.emit("Sub", {x, mean}), dtype);
  const Val squares = c.typed(c.emit("Mul", {centred, centred}), dtype);
  return {keep ? mean : c.squeeze(mean, axes), c.typed(reduce(c, "ReduceMean", squares, axes, keep), dtype)};
}

Val inverse_deviation(Ctx& c, Val variance) {
  const Val shifted = c.emit("Add", {variance, c.constant_number(c.number("eps"), c.output_dtype())});
  return c.emit("Reciprocal", {c.emit("Sqrt", {shifted})});
}

bool trains(Ctx& c) { return !c.schema().find("training") || c.flag("training"); }

// Normalises [N, C, *] by the statistics of each sample and channel, times `weight` [C] plus `bias` [C]. Runtimes have
// InstanceNormalization only in 32 bits or fewer.
Val instance_normalized(Ctx& c, Val x, Val weight, Val bias) {
  if (c.output_dtype() != DType::float64)
    return c.emit("InstanceNormalization", {x, weight, bias}, {{"epsilon", epsilon(c)}});
  Ints axes;
  for (int axis = 2; axis < c.rank(x); ++axis) axes.push_back(axis);
  const int trailing = c.rank(x) - 2;
  return scale_and_shift(c, standardize(c, x, axes, c.number("eps")), per_channel(c, weight, trailing),
                         per_channel(c, bias, trailing));
}

// Normalises by the statistics of each sample and channel.
Val by_instance(Ctx& c, Val x) {
  const Ints per_channel{channels(c, x)};
  return instance_normalized(c, x, weight_or(c, "weight", per_channel, 1), weight_or(c, "bias", per_channel, 0));
}

// Returns true for the statistics of a batch of one sample, into which PyTorch decomposes instance_norm.
bool is_batch_of_one(Ctx& c, Val x) {
  const bool by_batch = c.schema().find("training") != nullptr && c.flag("training");
  return by_batch && c.rank(x) > 2 && c.static_dim(x, 0) == std::int64_t{1} && c.static_dim(x, 1).has_value();
}

void native_batch_norm(Ctx& c) {
  const Val input = c.tensor("input");
  const Val result = is_batch_of_one(c, input) ? by_instance(c, input) : batch_norm_result(c, "eps");
  if (!c.result_used(1) && !c.result_used(2)) return c.yield({result, absent, absent});
  if (!c.schema().find("training") || !c.flag("training")) {
    const Val none = c.constant_tensor(filled({0}, 0, c.output_dtype(1)));
    return c.yield({result, none, none});
  }
  const Statistics batch = statistics_over(c, input, all_but_channels(c, input));
  c.yield({result, batch.mean, inverse_deviation(c, batch.variance)});
}

// Multiplies by n / (n - 1) for n elements per channel: the running variance is the unbiased one.
Val unbiased(Ctx& c, Val x, Val variance) {
  const DType dtype = c.output_dtype();
  const std::int64_t count = channels(c, x);
  const Val elements = c.cast(c.typed(c.emit("Size", {x}), DType::int64), dtype);
  const Val each = c.emit("Div", {elements, c.constant_number(static_cast<double>(count), dtype)});
  return c.emit("Mul", {variance, c.emit("Div", {each, c.emit("Sub", {each, c.constant_number(1, dtype)})})});
}

// Also yields the running statistics, moved towards the batch's by `momentum`.
void batch_norm_functional(Ctx& c) {
  const Val x = c.tensor("input");
  if (!trains(c)) {
    const Val none = c.constant_tensor(filled({0}, 0, c.output_dtype(1)));
    return c.yield({batch_norm_running(c, x, "eps"), none, none, c.tensor("running_mean"), c.tensor("running_var")});
  }
  const DType dtype = c.output_dtype();
  const Statistics batch = statistics_over(c, x, all_but_channels(c, x));
  const auto moved = [&](std::string_view running, Val now) {
    const Val kept = c.emit("Mul", {c.tensor(running), c.constant_number(1 - c.number("momentum"), dtype)});
    return c.emit("Add", {kept, c.emit("Mul", {now, c.constant_number(c.number("momentum"), dtype)})});
  };
  // ONNX Runtime casts 16-bit statistics to 32 bits once for all readers, and updates running statistics in that cast.
  const bool shared_by_cast = size_of(dtype) == 2;
  const Val normal = shared_by_cast ? batch_norm_decomposed(c, x, "eps") : batch_norm_batch(c, x, "eps");
  std::vector<Val> results{normal, batch.mean, inverse_deviation(c, batch.variance)};
  if (c.schema().returns.size() == 6) results.push_back(c.constant_tensor(filled({0}, 0, DType::uint8)));
  results.push_back(moved("running_mean", batch.mean));
  results.push_back(moved("running_var", unbiased(c, x, batch.variance)));
  c.yield(results);
}

// ---- layer norm: over the last axes ---------------------------------------------------------------------------------

Val layer_norm_decomposed(Ctx& c, Val x, std::size_t axes) {
  const Val normal = standardize(c, x, trailing_axes(axes), c.number("eps"));
  return scale_and_shift(c, normal, c.optional_tensor("weight"), c.optional_tensor("bias"));
}

std::vector<Val> layer_norm_inputs(Ctx& c, const Ints& shape) {
  std::vector<Val> inputs{c.tensor("input"), weight_or(c, "weight", shape, 1)};
  if (const Val bias = c.optional_tensor("bias")) inputs.push_back(bias);
  return inputs;
}

Attributes over_last(Ctx& c, std::size_t axes) {
  return {{"axis", -static_cast<std::int64_t>(axes)}, {"epsilon", epsilon(c)}};
}

// Returns the number of normalised axes if their sizes are not all known at export; separate nodes do not need the
// sizes.
std::optional<std::size_t> axes_of_dynamic_size(Ctx& c) {
  const std::vector<Size> shape = c.sizes("normalized_shape");
  const bool known = std::all_of(shape.begin(), shape.end(), [&](const Size& size) { return c.static_size(size); });
  return known ? std::nullopt : std::optional(shape.size());
}

bool is_empty_shape(const Ints& shape) { return std::ranges::find(shape, 0) != shape.end(); }

Val layer_norm_result(Ctx& c) {
  if (const auto axes = axes_of_dynamic_size(c)) return layer_norm_decomposed(c, c.tensor("input"), *axes);
  const Ints shape = c.integers("normalized_shape");
  if (is_empty_shape(shape)) return c.tensor("input");
  if (c.opset() < 17) return layer_norm_decomposed(c, c.tensor("input"), shape.size());
  return c.emit("LayerNormalization", layer_norm_inputs(c, shape), over_last(c, shape.size()));
}

void layer_norm(Ctx& c) { c.yield(layer_norm_result(c)); }

// ONNX computes the statistics in float32 for any input dtype, so float64 needs separate nodes.
std::vector<Val> layer_norm_with_wide_statistics(Ctx& c, std::size_t count) {
  const Val x = c.tensor("input");
  const auto [mean, variance] = statistics_over(c, x, trailing_axes(count), true);
  return {layer_norm_decomposed(c, x, count), mean, inverse_deviation(c, variance)};
}

// Also yields mean and 1 / sqrt(var + eps).
void native_layer_norm(Ctx& c) {
  if (!c.result_used(1) && !c.result_used(2)) return c.yield({layer_norm_result(c), absent, absent});
  const Ints shape = c.integers("normalized_shape");
  if (c.opset() < 17) c.refuse("the statistics of layer_norm need opset 17", "export with --opset 17 or newer");
  if (c.output_dtype() == DType::float64) return c.yield(layer_norm_with_wide_statistics(c, shape.size()));
  const auto results = c.emit_many("LayerNormalization", layer_norm_inputs(c, shape), over_last(c, shape.size()), 3);
  c.yield({results[0], c.typed(results[1], DType::float32), c.typed(results[2], DType::float32)});
}

// ---- RMS norm: over the last axes, without the mean ---------------------------------------------------------------

bool computes_in_float32(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

// The default of eps is that of the dtype in which PyTorch computes: float32 for 16-bit dtypes.
double rms_epsilon(Ctx& c) {
  if (c.has("eps")) return c.number("eps");
  return c.output_dtype() == DType::float64 ? 0x1p-52 : 0x1p-23;
}

Val rms_norm_decomposed(Ctx& c, Val x, std::size_t axes) {
  const DType dtype = c.output_dtype(), wide = computes_in_float32(dtype) ? DType::float32 : dtype;
  const Val normal = divide_by_rms(c, c.cast(x, wide), trailing_axes(axes), rms_epsilon(c), wide);
  return scale_and_shift(c, c.cast(c.typed(normal, wide), dtype), c.optional_tensor("weight"), absent);
}

Val rms_norm_result(Ctx& c) {
  const Val x = c.tensor("input");
  if (const auto axes = axes_of_dynamic_size(c)) return rms_norm_decomposed(c, x, *axes);
  const Ints shape = c.integers("normalized_shape");
  if (is_empty_shape(shape)) return c.tensor("input");
  if (!c.writes("RMSNormalization")) return rms_norm_decomposed(c, x, shape.size());
  return c.emit("RMSNormalization", {x, weight_or(c, "weight", shape, 1)},
                {{"axis", -static_cast<std::int64_t>(shape.size())}, {"epsilon", static_cast<float>(rms_epsilon(c))}});
}

void rms_norm(Ctx& c) { c.yield(rms_norm_result(c)); }

void fused_rms_norm(Ctx& c) { c.yield({rms_norm_result(c), absent}); }

// Reshapes `normal` to x's shape, which is the result's. If more than one size would have to be computed, takes the
// whole shape from x at run time.
Val in_shape_of(Ctx& c, Val normal, Val x) {
  const auto dims = c.output_dims();
  const bool many = !dims || std::ranges::count_if(*dims, [](const Dim& dim) { return !dim.is_static(); }) > 1;
  return many ? c.emit("Reshape", {normal, c.emit("Shape", {x})}) : c.reshape_to_output(normal);
}

// ---- group and instance norm: [N, C, *], statistics per sample and group of channels ------------------------------

// GroupNormalization scales per channel since opset 21. The operator of opset 18 scales per group and is deprecated, so
// before 21 each group is one instance of InstanceNormalization, and the channels are scaled afterwards.
Val group_norm_result(Ctx& c, std::string_view groups_argument) {
  const Val x = c.tensor("input");
  const int rank = c.rank(x);
  const std::int64_t groups = c.count(groups_argument);
  c.table_size({groups});
  c.expect(rank >= 2 && c.static_dim(x, 1).value_or(groups) % groups == 0,
           "the number of channels must be a multiple of the number of groups");
  if (c.opset() >= 21 && c.output_dtype() != DType::float64) {  // runtimes compute it only in 32 bits
    const Ints per_channel{channels(c, x)};
    return c.emit("GroupNormalization",
                  {x, weight_or(c, "weight", per_channel, 1), weight_or(c, "bias", per_channel, 0)},
                  {{"epsilon", epsilon(c)}, {"num_groups", groups}});
  }
  const Val ones = c.constant_tensor(filled({groups}, 1, c.output_dtype()));
  const Val zeros = c.constant_tensor(filled({groups}, 0, c.output_dtype()));
  const Val grouped = c.emit("Reshape", {x, c.constant_ints({0, groups, -1})});
  const Val normal = instance_normalized(c, grouped, ones, zeros);
  const Val weight = c.optional_tensor("weight"), bias = c.optional_tensor("bias");
  return scale_and_shift(c, in_shape_of(c, normal, x), weight ? per_channel(c, weight, rank - 2) : absent,
                         bias ? per_channel(c, bias, rank - 2) : absent);
}

void group_norm(Ctx& c) { c.yield(group_norm_result(c, "num_groups")); }

// Also yields mean and 1 / sqrt(var + eps) of each group: [N, groups].
void native_group_norm(Ctx& c) {
  const Val result = group_norm_result(c, "group");
  if (!c.result_used(1) && !c.result_used(2)) return c.yield({result, absent, absent});
  const Val grouped = c.emit("Reshape", {c.tensor("input"), c.constant_ints({0, c.integer("group"), -1})});
  const Statistics each = statistics_over(c, grouped, {2});
  c.yield({result, each.mean, inverse_deviation(c, each.variance)});
}

void instance_norm(Ctx& c) {
  const Val x = c.tensor("input");
  if (!c.flag("use_input_stats")) return c.yield(batch_norm_running(c, x, "eps"));
  c.yield(by_instance(c, x));
}

// ---- weight norm: v * g / |v|, the norm over every axis but `dim` ---------------------------------------------------

Val weight_norm_result(Ctx& c) {
  const Val v = c.tensor("v");
  const std::int64_t kept = c.integer("dim");
  Ints axes;  // dim -1: the norm over all axes
  for (int axis = 0; axis < c.rank(v); ++axis) {
    if (axis != kept) axes.push_back(axis);
  }
  const Val norm = reduce(c, "ReduceL2", v, axes, true);
  return c.emit("Mul", {v, c.emit("Div", {c.tensor("g"), norm})});
}

void weight_norm(Ctx& c) { c.yield(weight_norm_result(c)); }

void weight_norm_interface(Ctx& c) { c.yield({weight_norm_result(c), absent}); }

const OpEntry kNormalization[] = {
    {"aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
     "bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor",
     batch_norm},
    {"aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
     "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
     native_batch_norm},
    {"aten::_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
     "Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, "
     "Tensor running_mean_out, Tensor running_var_out)",
     batch_norm_functional},
    {"aten::_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
     "Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, "
     "Tensor running_var_out)",
     batch_norm_functional},
    {"aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, "
     "float momentum, float eps) -> (Tensor, Tensor, Tensor)",
     native_batch_norm},
    {"aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
     "Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
     native_batch_norm},
    {"aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
     "float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor",
     layer_norm},
    {"aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> "
     "(Tensor, Tensor, Tensor)",
     native_layer_norm},
    {"aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
     rms_norm},
    {"aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
     fused_rms_norm},
    {"aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, "
     "float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor",
     group_norm},
    {"aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, "
     "float eps) -> (Tensor, Tensor, Tensor)",
     native_group_norm},
    {"aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
     "bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor",
     instance_norm},
    {"aten::_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor", weight_norm},
    {"aten::_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)", weight_norm_interface},
};

}  // namespace

OpFamily normalization_ops() { return kNormalization; }

}  // namespace whence::convert
