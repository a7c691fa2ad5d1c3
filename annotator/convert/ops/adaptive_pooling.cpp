// Pooling to a given output size. Output i of an axis covers inputs [floor(i * in / out), ceil((i + 1) * in / out)).
// ONNX has only global pooling, so other sizes use a fixed window if `in` is a multiple of `out`. Otherwise windows
// differ in length and may overlap. They are separable, so each axis is pooled separately: averages multiply by a
// matrix of weights, maxima reduce the gathered elements of each window. If `in` is dynamic, the graph computes the
// matrix and the indices.
#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "annotator/convert/axes.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"

namespace whence::convert {
namespace {

struct Adaptive {
  Val input;
  int axes = 0;         // number of spatial axes
  Ints output;          // requested sizes; `unchanged_size` for an axis that keeps its dynamic size
  bool batched = true;  // [N, C, *spatial]
};

constexpr std::int64_t unchanged_size = -1;

// Returns the requested sizes. nn.AdaptiveAvgPool2d((1, None)) keeps the size of an axis.
Ints output_sizes(Ctx& c, Val input, std::int64_t first_axis, std::size_t axes) {
  const std::vector<Size> requested = c.sizes("output_size");
  const auto result = c.output_dims();
  const auto keeps = [&](std::size_t i) {
    if (c.static_size(requested[i])) return false;
    const std::int64_t axis = first_axis + static_cast<std::int64_t>(i);
    const SymbolId size = c.dims(input)[axis].symbol;
    return c.same_size(requested[i], input, axis) || (result && size != none_id && (*result)[axis].symbol == size);
  };
  bool any = false;
  for (std::size_t i = 0; i < requested.size(); ++i) any |= keeps(i);
  if (!any || requested.size() != axes) return c.counts("output_size", axes);
  Ints sizes;
  for (std::size_t i = 0; i < axes; ++i) {
    const auto known = c.static_size(requested[i]);
    if (!known && !keeps(i)) return c.counts("output_size", axes);
    if (known) c.expect(*known > 0, "output_size must be above 0");
    sizes.push_back(known.value_or(unchanged_size));
  }
  return sizes;
}

Adaptive read(Ctx& c) {
  Adaptive pool;
  pool.input = c.tensor("self");
  pool.axes = c.schema().find("output_size")->type.list_size;
  c.expect(c.rank(pool.input) > pool.axes, "the input must have a channel axis before the spatial axes");
  pool.output = output_sizes(c, pool.input, c.rank(pool.input) - pool.axes, static_cast<std::size_t>(pool.axes));
  for (const std::int64_t size : pool.output) c.table_size({std::max<std::int64_t>(size, 1)});
  pool.batched = c.rank(pool.input) == pool.axes + 2;
  return pool;
}

bool to_one(const Adaptive& pool) { return pool.output == Ints(pool.axes, 1); }

// Returns the sizes of the spatial axes if all are static.
std::optional<Ints> input_sizes(Ctx& c, const Adaptive& pool) {
  Ints sizes;
  for (int i = 0; i < pool.axes; ++i) {
    const auto size = c.static_dim(pool.input, i - pool.axes);
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

// The first index of each window of an axis, and the index after its last, [out].
struct Windows {
  Val begins, ends, size;  // the size of the input's axis, a scalar
};

Windows windows(Ctx& c, Val x, std::int64_t axis, std::int64_t out) {
  Ints first(out), next(out);
  for (std::int64_t i = 0; i < out; ++i) first[i] = i, next[i] = i + 1;
  const Val size = c.dim_of(x, axis), count = c.constant_int(out);
  const Val above = c.emit("Add", {c.emit("Mul", {c.constant_ints(next), size}), c.constant_int(out - 1)});
  return {c.emit("Div", {c.emit("Mul", {c.constant_ints(first), size}), count}), c.emit("Div", {above, count}), size};
}

// Moves `axis` to the end, pools the last axis with `pooled`, and moves the axis back.
Val along(Ctx& c, Val x, std::int64_t axis, const std::function<Val(Val)>& pooled) {
  const Ints order = exchanged_axes(c.rank(x), axis, c.rank(x) - 1);
  const DType dtype = c.dtype(x);
  std::vector<Dim> dims = c.dims(x);
  std::swap(dims[axis], dims.back());
  const Val y = pooled(c.typed(c.transpose(x, order), dtype, std::move(dims)));
  return c.transpose(y, order);
}

// [*, n] -> [*, out] by a matrix [n, out]; its column i holds 1 / length in the window of output i.
Val average_of_windows(Ctx& c, Val x, std::int64_t out) {
  const DType dtype = c.dtype(x);
  const Windows w = windows(c, x, c.rank(x) - 1, out);
  const Val index = c.unsqueeze(c.emit("Range", {c.constant_int(0), w.size, c.constant_int(1)}), {1});
  const Val inside = c.emit("And", {c.emit("GreaterOrEqual", {index, w.begins}), c.emit("Less", {index, w.ends})});
  const Val length = c.cast(c.typed(c.emit("Sub", {w.ends, w.begins}), DType::int64), dtype);
  return c.emit("MatMul", {x, c.emit("Div", {c.cast(c.typed(inside, DType::boolean), dtype), length})});
}

// [*, n] -> [*, out]: gathers indices [out, w], with w of the longest window; shorter windows repeat their last
// element.
Val maximum_of_windows(Ctx& c, Val x, std::int64_t out) {
  const DType dtype = c.dtype(x);
  const int rank = c.rank(x);
  const Windows w = windows(c, x, rank - 1, out);
  const Val longest = reduce(c, "ReduceMax", c.typed(c.emit("Sub", {w.ends, w.begins}), DType::int64), {0}, false);
  const Val step = c.emit("Range", {c.constant_int(0), longest, c.constant_int(1)});
  const Val last = c.emit("Sub", {w.ends, c.constant_int(1)});
  const Val indices = c.emit("Min", {c.emit("Add", {c.unsqueeze(w.begins, {1}), step}), c.unsqueeze(last, {1})});
  const Val gathered = c.emit("Gather", {x, indices}, {{"axis", rank - 1}});
  return reduce(c, "ReduceMax", c.typed(gathered, dtype, std::vector<Dim>(rank + 1, Dim{-1, true})), {-1}, false);
}

// Reduces the axes that are pooled to one element, if other axes keep their size.
void reduce_ones(Ctx& c, Adaptive& pool, Val (*reduced)(Ctx&, Val, const Ints&)) {
  if (std::ranges::find(pool.output, unchanged_size) == pool.output.end()) return;
  std::vector<Dim> dims = c.dims(pool.input);
  Ints ones;
  for (int i = 0; i < pool.axes; ++i) {
    const std::int64_t axis = c.rank(pool.input) - pool.axes + i;
    if (pool.output[i] != 1) continue;
    ones.push_back(axis);
    dims[axis] = Dim{1, false, none_id};
  }
  const DType dtype = c.dtype(pool.input);
  if (!ones.empty()) pool.input = c.typed(reduced(c, pool.input, ones), dtype, std::move(dims));
}

Val mean_of(Ctx& c, Val x, const Ints& axes) { return reduce(c, "ReduceMean", x, axes, true); }
Val maximum_of(Ctx& c, Val x, const Ints& axes) { return reduce(c, "ReduceMax", x, axes, true); }

// Pools each spatial axis separately.
Val by_axis(Ctx& c, const Adaptive& pool, Val (*pooled)(Ctx&, Val, std::int64_t)) {
  Val x = pool.input;
  const DType dtype = c.dtype(x);
  std::vector<Dim> dims = c.dims(x);
  for (int i = 0; i < pool.axes; ++i) {
    const std::int64_t axis = c.rank(pool.input) - pool.axes + i;
    if (pool.output[i] == unchanged_size || (dims[axis].is_static() && dims[axis].size == pool.output[i])) continue;
    dims[axis] = Dim{pool.output[i], false, none_id};
    x = c.typed(along(c, x, axis, [&](Val y) { return pooled(c, y, pool.output[i]); }), dtype, dims);
  }
  return x;
}

Attributes fixed_window(const Ints& in, const Ints& out) {
  Ints window(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) window[i] = in[i] / out[i];
  return {{"kernel_shape", window}, {"strides", window}};
}

bool divisible(const Ints& in, const Ints& out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i] % out[i] != 0) return false;
  }
  return true;
}

// [out, in] or, transposed, [in, out]: row i holds 1 / length in the window of output i.
Val averaging_matrix(Ctx& c, std::int64_t in, std::int64_t out, bool transpose) {
  std::vector<float> weights(c.table_size({in, out}), 0.0F);
  for (std::int64_t i = 0; i < out; ++i) {
    const std::int64_t begin = i * in / out, end = ((i + 1) * in + out - 1) / out;
    for (std::int64_t j = begin; j < end; ++j) {
      weights[transpose ? j * out + i : i * in + j] = 1.0F / static_cast<float>(end - begin);
    }
  }
  const Ints shape = transpose ? Ints{in, out} : Ints{out, in};
  const Val matrix = c.typed(
      c.constant_tensor({DType::float32, shape, Bytes::copy_of(weights.data(), weights.size() * sizeof(float))}),
      DType::float32);
  return c.cast(matrix, c.output_dtype());
}

// The windows are separable, so each axis is averaged separately: the last two by a matrix on either side, the first of
// three after the other two have been flattened into one.
Val average_by_matrices(Ctx& c, const Adaptive& pool, const Ints& in) {
  Val x = pool.input;
  const int last = pool.axes - 1;
  if (in[last] != pool.output[last]) x = c.emit("MatMul", {x, averaging_matrix(c, in[last], pool.output[last], true)});
  if (last >= 1 && in[last - 1] != pool.output[last - 1]) {
    x = c.emit("MatMul", {averaging_matrix(c, in[last - 1], pool.output[last - 1], false), x});
  }
  if (pool.axes == 3 && in[0] != pool.output[0]) {
    Ints planes(pool.batched ? 2 : 1, 0);
    planes.insert(planes.end(), {in[0], -1});
    x = c.emit("Reshape", {x, c.constant_ints(planes)});
    x = c.reshape_to_output(c.emit("MatMul", {averaging_matrix(c, in[0], pool.output[0], false), x}));
  }
  return x;
}

Ints plane_axes(const Adaptive& pool) {
  Ints axes(pool.axes);
  std::iota(axes.begin(), axes.end(), pool.batched ? 2 : 1);
  return axes;
}

// Returns true if runtimes have global pooling for this dtype: in float64 they have only reductions.
bool has_global_pooling(Ctx& c, const Adaptive& pool) { return pool.batched && c.output_dtype() != DType::float64; }

void adaptive_avg_pool(Ctx& c) {
  Adaptive pool = read(c);
  if (to_one(pool)) {
    if (has_global_pooling(c, pool)) return c.yield(c.emit("GlobalAveragePool", {pool.input}));
    return c.yield(reduce_mean(c, pool.input, plane_axes(pool), true));
  }
  reduce_ones(c, pool, mean_of);
  const auto in = input_sizes(c, pool);
  if (!in) return c.yield(by_axis(c, pool, average_of_windows));
  if (*in == pool.output) return c.yield(pool.input);
  if (pool.batched && divisible(*in, pool.output)) {
    return c.yield(c.emit("AveragePool", {pool.input}, fixed_window(*in, pool.output)));
  }
  bool fits = true;
  for (std::size_t i = 0; i < in->size(); ++i) fits = fits && c.table_fits({(*in)[i], pool.output[i]});
  c.yield(fits ? average_by_matrices(c, pool, *in) : by_axis(c, pool, average_of_windows));
}

// Yields values and their indices within the plane; uneven windows yield only values.
void adaptive_max_pool(Ctx& c) {
  Adaptive pool = read(c);
  if (to_one(pool) && pool.batched && !c.result_used(1)) {
    if (has_global_pooling(c, pool)) return c.yield({c.emit("GlobalMaxPool", {pool.input}), absent});
    return c.yield({reduce(c, "ReduceMax", pool.input, plane_axes(pool), true), absent});
  }
  if (!c.result_used(1)) reduce_ones(c, pool, maximum_of);
  const auto sizes = input_sizes(c, pool);
  if (!sizes || !divisible(*sizes, pool.output)) {
    if (!c.result_used(1)) return c.yield({by_axis(c, pool, maximum_of_windows), absent});
    c.refuse(
        "indices of adaptive max pooling need a static input size that is a multiple of output_size",
        "leave return_indices out, choose an input size that is a multiple of output_size, or use max_pool with an "
        "explicit window");
  }
  const Ints& in = *sizes;
  const Val x = pool.batched ? pool.input : c.unsqueeze(pool.input, {0});
  const auto back = [&](Val y) { return pool.batched ? y : c.squeeze(y, {0}); };
  if (!c.result_used(1)) return c.yield({back(c.emit("MaxPool", {x}, fixed_window(in, pool.output))), absent});
  const auto results = c.emit_many("MaxPool", {x}, fixed_window(in, pool.output), 2);
  std::int64_t plane = 1;
  for (const std::int64_t size : in) plane *= size;
  c.yield({back(results[0]), back(c.emit("Mod", {results[1], c.constant_int(plane)}))});
}

const OpEntry kAdaptivePooling[] = {
    {"aten::adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor", adaptive_avg_pool},
    {"aten::adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor", adaptive_avg_pool},
    {"aten::adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor", adaptive_avg_pool},
    {"aten::_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor", adaptive_avg_pool},
    {"aten::_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor", adaptive_avg_pool},
    {"aten::adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)", adaptive_max_pool},
    {"aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)", adaptive_max_pool},
    {"aten::adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)", adaptive_max_pool},
};

}  // namespace

OpFamily adaptive_pooling_ops() { return kAdaptivePooling; }

}  // namespace whence::convert
