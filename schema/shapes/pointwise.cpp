// Shape functions for results with the shape of an argument or of all arguments broadcast, and for reductions.
#include <algorithm>

#include "schema/shapes/shape_call.h"

namespace whence::shapes {

namespace {

// Every result has the shape of the first argument.
Shapes as_first(const ShapeCall& call) { return Shapes(std::max<std::size_t>(call.results(), 1), call.first()); }

Shapes as_index(const ShapeCall& call) { return {call.tensor("index")}; }

Shapes broadcast_arguments(const ShapeCall& call) {
  const Shapes shapes = call.all_tensors();
  if (shapes.empty()) throw NoShape();
  Shape result = shapes.front();
  for (const Shape& shape : shapes) result = broadcast(result, shape);
  return {result};
}

Shape without_axes(const Shape& shape, const std::vector<std::size_t>& axes, bool keep) {
  Shape result;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const bool is_reduced = axes.empty() || std::ranges::find(axes, axis) != axes.end();
    if (!is_reduced) result.push_back(shape[axis]);
    if (is_reduced && keep) result.push_back(1);
  }
  return result;
}

// Reductions over the axes `dim`, or over all axes.
Shapes reduction(const ShapeCall& call) {
  const Shape& shape = call.first();
  const std::vector<std::size_t> axes = shape.empty() ? std::vector<std::size_t>() : call.axes("dim", shape.size());
  const Shape result = without_axes(shape, axes, call.flag("keepdim", false));
  return Shapes(std::max<std::size_t>(call.results(), 1), result);
}

// max and min take two tensors or reduce one.
Shapes minimum_or_maximum(const ShapeCall& call) {
  return call.node().overload == "other" ? broadcast_arguments(call) : reduction(call);
}

// kthvalue, median and others reduce one axis, by default the last.
Shapes axis_reduction(const ShapeCall& call) {
  const Shape& shape = call.first();
  if (shape.empty() || call.node().overload.empty()) {
    if (call.node().target != "aten::kthvalue") return reduction(call);
  }
  const Shape result = without_axes(shape, {call.axis("dim", shape.size(), -1)}, call.flag("keepdim", false));
  return Shapes(std::max<std::size_t>(call.results(), 1), result);
}

Shapes topk(const ShapeCall& call) {
  Shape shape = call.first();
  shape[call.axis("dim", shape.size(), -1)] = call.integer("k");
  return {shape, shape};
}

// Similarity of two broadcast tensors along one axis.
Shapes similarity(const ShapeCall& call) {
  const Shape both = broadcast(call.tensor("x1"), call.tensor("x2"));
  return {without_axes(both, {call.axis("dim", both.size(), 1)}, false)};
}

}  // namespace

const std::vector<Row>& pointwise_rows() {
  static const std::vector<Row> rows = {
      {as_first,
       "abs acos acosh alias alpha_dropout angle asin asinh atan "
       "atanh batch_norm bernoulli bitwise_not ceil celu channel_shuffle clone conj contiguous copy cos cosh cpu "
       "cummax "
       "cummin cumprod cumsum logcumsumexp deg2rad detach digamma dropout elu empty_like erf erfc erfinv exp exp2 "
       "expm1 "
       "feature_alpha_dropout feature_dropout fft_fft fft_ifft fft_fft2 fft_ifft2 fft_fftshift fft_ifftshift flip "
       "fliplr flipud floor frac full_like gelu group_norm hardshrink hardsigmoid hardswish hardtanh i0 "
       "index_add index_copy index_fill index_put instance_norm isfinite isinf isnan isneginf isposinf layer_norm "
       "leaky_relu lgamma lift lift_fresh lift_fresh_copy log log10 log1p log2 log_sigmoid log_softmax logical_not "
       "logit "
       "masked_scatter mish nan_to_num native_dropout neg normal ones_like positive prelu put rad2deg "
       "rand_like randint_like randn_like reciprocal relu relu6 renorm rms_norm roll round rrelu rsqrt "
       "scatter scatter_add scatter_reduce select_scatter selu sgn sigmoid sign signbit silu sin sinc sinh "
       "slice_scatter softmax _softmax _log_softmax softplus softshrink sort sqrt square tan tanh threshold "
       "to tril triu trunc type_as zeros_like fill _to_copy "
       "fake_quantize_per_tensor_affine fake_quantize_per_channel_affine real imag diagonal_scatter "
       "argsort "
       "_unsafe_index_put index_reduce resolve_conj resolve_neg"},
      {as_index, "gather take"},
      {broadcast_arguments,
       "__and__ __or__ __xor__ __lshift__ __rshift__ add addcdiv addcmul atan2 bitwise_and "
       "bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor clamp clamp_max clamp_min complex "
       "copysign div eq floor_divide fmax fmin fmod ge gt heaviside hypot isclose le lerp "
       "logaddexp logaddexp2 logical_and logical_or logical_xor lt masked_fill maximum minimum mul "
       "ne nextafter polar pow remainder rsub sub xlogy"},
      {reduction,
       "all amax amin any argmax argmin count_nonzero linalg_vector_norm logsumexp mean nanmean nansum norm prod std "
       "std_mean sum var var_mean aminmax frobenius_norm"},
      {minimum_or_maximum, "max min"},
      {axis_reduction, "kthvalue median mode nanmedian"},
      {topk, "topk"},
      {similarity, "cosine_similarity"},
  };
  return rows;
}

}  // namespace whence::shapes
