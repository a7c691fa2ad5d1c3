// Writes elements by index or mask into a copy of a tensor: index_put, scatter, index_add, masked_scatter, copy.
#include <algorithm>
#include <cmath>
#include <limits>

#include "annotator/convert/advanced_index.h"
#include "annotator/convert/axes.h"
#include "annotator/convert/broadcast.h"
#include "annotator/convert/convert.h"
#include "annotator/convert/ops/division.h"
#include "annotator/convert/ops/elementwise.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/select.h"
#include "annotator/program/program_facts.h"

namespace whence::convert {
namespace {

// ---- reductions -------------------------------------------------------------------------------------------------

// Attributes of ScatterND and ScatterElements for combining new with existing elements. ONNX has "add" and "mul" from
// opset 16, "max" and "min" from 18; "none" overwrites.
Attributes reduction(Ctx& c, const std::string& name) {
  if (name == "none") return {};
  const int since = name == "max" || name == "min" ? 18 : 16;
  if (c.opset() < since) {
    c.refuse("ONNX scatters with reduction '" + name + "' from opset " + std::to_string(since),
             "export with --opset " + std::to_string(since) + " or newer");
  }
  return {{"reduction", name}};
}

// Returns ONNX's name of a PyTorch reduction.
std::string onnx_reduction(Ctx& c, std::string_view argument) {
  const std::string name = c.text(argument);
  if (name == "sum" || name == "add") return "add";
  if (name == "prod" || name == "multiply") return "mul";
  if (name == "amax") return "max";
  if (name == "amin") return "min";
  c.refuse("ONNX has no scatter with reduction '" + name + "'", "use sum, mean, prod, amax or amin");
}

// ---- by advanced index ------------------------------------------------------------------------------------------

bool is_single(Ctx& c, Val x) {
  const auto& dims = c.dims(x);
  return std::all_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.is_static() && dim.size == 1; });
}

// The mask over axes p..p+k of x selects where `value`, a single element, is written.
Val masked_write(Ctx& c, Val x, const IndexedAxis& mask, Val value) {
  Ints trailing;
  const int covered = c.rank(mask.index);
  for (std::int64_t i = 0; i < c.rank(x) - mask.axis - covered; ++i) trailing.push_back(covered + i);
  const Val wide = c.unsqueeze(mask.index, trailing);
  if (c.rank(value) > c.rank(x)) value = c.emit("Reshape", {value, c.constant_ints({})});
  return select(c, wide, value, x);
}

// Returns true if the axis may have size 1: it had in the example, or data decide its size.
bool may_be_one(Ctx& c, Val value, int axis) {
  const Dim& dim = c.dims(value)[static_cast<std::size_t>(axis)];
  return dim.size == 1 || (!dim.is_static() && program::may_become_one(c.session().program(), dim));
}

// Expands `values`, which broadcast to the result of x[axes], and brings them into the order [B, others].
Val spread_values(Ctx& c, Val x, const std::vector<IndexedAxis>& axes, const IndexLayout& layout, Val values) {
  std::vector<Val> tensors;
  for (const IndexedAxis& entry : axes) tensors.push_back(entry.index);
  std::vector<Size> shape = broadcast_shape(c, tensors);
  for (std::size_t i = axes.size(); i < layout.to_front.size(); ++i) {
    shape.push_back(size_of_axis(c, x, layout.to_front[i]));
  }
  const int rank = static_cast<int>(shape.size());
  const Ints order = result_order(layout, rank);
  bool complete = c.rank(values) == rank;
  std::vector<Size> sizes;
  for (int i = 0; i < rank; ++i) {
    sizes.push_back(shape[order[i]]);
    complete = complete && (sizes[i] == Size{1} || !may_be_one(c, values, i));
  }
  if (!complete) values = c.emit("Expand", {values, c.to_vector(sizes)});
  return c.transpose(values, inverse(order));
}

// A copy of self in which the elements self[indices] are replaced with `values` or, with accumulate, increased by them.
void index_put(Ctx& c) {
  const Val x = c.tensor("self"), values = c.cast(c.tensor("values"), c.dtype(x));
  const std::vector<Val> indices = c.optional_tensors("indices");
  const bool accumulate = c.flag("accumulate");
  if (const auto mask = only_mask(c, indices); mask && !accumulate && is_single(c, values)) {
    return c.yield(masked_write(c, x, *mask, values));
  }
  const std::vector<IndexedAxis> axes = indexed_axes(c, indices);
  if (axes.empty()) {
    const Val all = broadcast(c, values, {x});
    return c.yield(accumulate ? c.emit("Add", {x, all}) : all);
  }
  const IndexLayout layout = index_layout(c, axes, c.rank(x));
  const Val updates = spread_values(c, x, axes, layout, values);
  const Val written = c.emit("ScatterND", {c.transpose(x, layout.to_front), index_table(c, axes), updates},
                             reduction(c, accumulate ? "add" : "none"));
  c.yield(c.transpose(written, inverse(layout.to_front)));
}

// ---- along an axis ----------------------------------------------------------------------------------------------

// ScatterElements: result[index[i, j], j] = updates[i, j] for axis 0; other axes accordingly.
Val scattered(Ctx& c, Val x, Val index, Val updates, const std::string& how) {
  const Val vector = at_least_vector(c, x);
  Attributes attributes = reduction(c, how);
  attributes.push_back({"axis", c.axis(c.integer("dim"), c.rank(vector))});
  const Val written =
      c.emit("ScatterElements", {vector, at_least_vector(c, index), at_least_vector(c, updates)}, attributes);
  return c.rank(x) == 0 ? c.squeeze(written, {0}) : written;
}

// `src` may be larger than the index in any axis; only the part the index covers is written.
Val covered_source(Ctx& c, Val src, Val index) {
  const auto& wide = c.dims(src);
  const auto& narrow = c.dims(index);
  bool larger = false;
  for (std::size_t axis = 0; axis < wide.size(); ++axis) larger |= wide[axis].size != narrow[axis].size;
  if (!larger) return src;
  return c.emit("Slice", {src, c.constant_ints(Ints(wide.size(), 0)), c.to_vector(shape_of(c, index))});
}

Val scatter_updates(Ctx& c, Val index) {
  const DType dtype = c.output_dtype();
  if (c.schema().find("src")) {
    return covered_source(c, at_least_vector(c, c.cast(c.tensor("src"), dtype)), at_least_vector(c, index));
  }
  return broadcast(c, c.scalar("value", dtype), {index});
}

void scatter_with(Ctx& c, const std::string& how) {
  const Val x = c.tensor("self"), index = c.tensor("index");
  c.yield(scattered(c, x, index, scatter_updates(c, index), how));
}
void scatter(Ctx& c) { scatter_with(c, "none"); }
void scatter_add(Ctx& c) { scatter_with(c, "add"); }
void scatter_reducing(Ctx& c) { scatter_with(c, onnx_reduction(c, "reduce")); }

// Returns the neutral number of a reduction in `dtype`.
Val neutral(Ctx& c, const std::string& how, DType dtype) {
  if (how == "add") return c.constant_number(0, dtype);
  if (how == "mul") return c.constant_number(1, dtype);
  const bool least = how == "max";
  if (is_floating(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return c.constant_number(least ? -infinity : infinity, dtype);
  }
  if (dtype == DType::int64) {  // a double cannot hold the greatest
    using Limits = std::numeric_limits<std::int64_t>;
    return c.constant_int(least ? Limits::min() : Limits::max());
  }
  if (dtype == DType::boolean) return c.constant_number(least ? 0 : 1, dtype);
  const double values = std::ldexp(1.0, 8 * static_cast<int>(size_of(dtype)));
  const double lowest = is_unsigned(dtype) ? 0 : -values / 2;
  return c.constant_number(least ? lowest : lowest + values - 1, dtype);
}

// The mean is the sum divided by the number of summed elements; PyTorch rounds integer means down. With include_self
// the existing element counts as one of them.
Val mean_of(Ctx& c, Val sum, Val index, bool include_self) {
  const DType dtype = c.output_dtype();
  const Val one = c.constant_number(1, dtype), zero = c.constant_number(0, dtype);
  const Val start = broadcast(c, include_self ? one : zero, {sum});
  Val count = c.typed(scattered(c, start, index, broadcast(c, one, {index}), "add"), dtype);
  if (!include_self) count = c.emit("Max", {count, one});
  return is_floating(dtype) ? c.emit("Div", {sum, count}) : floor_quotient(c, sum, count, dtype);
}

// ScatterElements compares elements, so it keeps or loses NaN by chance. In PyTorch the maximum or minimum of elements
// with NaN is NaN.
Val with_nan(Ctx& c, Val reduced, Val x, Val index, Val updates) {
  const auto marks = [&](Val v) {
    return c.cast(c.typed(c.emit("IsNaN", {v}), DType::boolean, c.dims(v)), DType::float32);
  };
  const Val marked = c.typed(scattered(c, marks(x), index, marks(updates), "max"), DType::float32);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return c.emit("Where", {c.cast(marked, DType::boolean), c.constant_number(nan, c.output_dtype()), reduced});
}

// Without include_self, the target elements start from the reduction's neutral number.
void reduce_into(Ctx& c, Val index, Val updates) {
  Val x = c.tensor("self");
  const bool mean = c.text("reduce") == "mean", include_self = c.flag("include_self");
  const std::string how = mean ? "add" : onnx_reduction(c, "reduce");
  if (!include_self) {
    x = scattered(c, x, index, broadcast(c, neutral(c, how, c.output_dtype()), {index}), "none");
  }
  Val reduced = scattered(c, x, index, updates, how);
  if ((how == "max" || how == "min") && is_floating(c.output_dtype()))
    reduced = with_nan(c, reduced, x, index, updates);
  c.yield(mean ? mean_of(c, reduced, index, include_self) : reduced);
}

void scatter_reduce(Ctx& c) {
  const Val index = c.tensor("index");
  reduce_into(c, index, scatter_updates(c, index));
}

void yield_like_self(Ctx& c, Val written) {
  c.yield(c.rank(c.tensor("self")) == 0 ? c.squeeze(written, {0}) : written);
}

// Expands a vector of indices along dim to `shape`, for ScatterElements.
Val spread_index(Ctx& c, Val index, Val x, const std::vector<Size>& shape) {
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  index = at_least_vector(c, index);
  Ints trailing;
  for (std::int64_t i = 1; i < c.rank(x) - axis; ++i) trailing.push_back(i);
  index = c.unsqueeze(index, trailing);
  return c.rank(x) == 1 ? index : c.emit("Expand", {index, c.to_vector(shape)});
}

// Writes or adds slice i of `source` at index[i] along dim. Along the first axis, ScatterND accepts slices.
void index_write(Ctx& c, const std::string& how, Val source) {
  const Val x = at_least_vector(c, c.tensor("self")), index = c.tensor("index");
  if (c.rank(x) == 1) source = at_least_vector(c, source);
  if (c.rank(x) > 1 && c.rank(index) == 1 && c.axis(c.integer("dim"), c.rank(x)) == 0) {
    return c.yield(c.emit("ScatterND", {x, c.unsqueeze(index, {1}), source}, reduction(c, how)));
  }
  Val indices = spread_index(c, index, x, shape_of(c, source));
  if (c.rank(x) > 1)
    indices = c.typed(indices, c.dtype(index), c.dims(source));  // for a vector these are the index itself
  yield_like_self(c, scattered(c, x, indices, source, how));
}
void index_reduce(Ctx& c) {
  const Val x = at_least_vector(c, c.tensor("self"));
  Val source = c.cast(c.tensor("source"), c.output_dtype());
  if (c.rank(x) == 1) source = at_least_vector(c, source);
  reduce_into(c, spread_index(c, c.tensor("index"), x, shape_of(c, source)), source);
}
void index_copy(Ctx& c) { index_write(c, "none", c.cast(c.tensor("source"), c.output_dtype())); }
void index_add(Ctx& c) {
  const DType dtype = c.output_dtype();
  index_write(c, "add", times_scalar(c, c.cast(c.tensor("source"), dtype), "alpha", dtype));
}

void index_fill(Ctx& c) {
  const Val x = at_least_vector(c, c.tensor("self")), index = c.tensor("index");
  std::vector<Size> shape = shape_of(c, x);
  shape[c.axis(c.integer("dim"), c.rank(x))] = c.rank(index) == 0 ? Size{1} : size_of_axis(c, index, 0);
  const Val value = c.emit("Expand", {c.cast(c.tensor("value"), c.output_dtype()), c.to_vector(shape)});
  yield_like_self(c, scattered(c, x, spread_index(c, index, x, shape), value, "none"));
}

// Replaces elements with those of source, or adds them; indices count in the flattened tensor.
void put(Ctx& c) {
  const Val x = c.tensor("self");
  const auto flat = [&](Val v) { return c.rank(v) == 1 ? v : c.emit("Reshape", {v, c.constant_ints({-1})}); };
  Attributes attributes = reduction(c, c.flag("accumulate") ? "add" : "none");
  attributes.push_back({"axis", 0});
  const Val written =
      c.emit("ScatterElements", {flat(x), flat(c.tensor("index")), flat(c.tensor("source"))}, attributes);
  c.yield(c.rank(x) == 1 ? written : c.reshape_to_output(written));
}

// ---- whole tensors ----------------------------------------------------------------------------------------------

// The true elements of the mask, in order, are replaced with the first elements of source.
void masked_scatter(Ctx& c) {
  const Val x = broadcast(c, c.tensor("self"), {c.tensor("mask")});
  const Val mask = broadcast(c, c.tensor("mask"), {c.tensor("self")});
  const std::int64_t rank = std::max(c.rank(c.tensor("self")), c.rank(c.tensor("mask")));
  const Val indices = c.typed(mask_positions(c, mask), DType::int64, std::vector<Dim>{{-1, true}, {rank, false}});
  const Val flat = c.emit("Reshape", {c.cast(c.tensor("source"), c.output_dtype()), c.constant_ints({-1})});
  const Val needed = c.emit("Slice", {flat, c.constant_ints({0}), c.to_vector({c.dim_of(indices, 0)})});
  c.yield(c.emit("ScatterND", {x, indices, needed}));
}

// Yields the values of src in the shape and dtype of self.
void copy(Ctx& c) { c.yield(broadcast(c, c.cast(c.tensor("src"), c.output_dtype()), {c.tensor("self")})); }

const OpEntry kScatter[] = {
    {"aten::_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
     index_put},
    {"aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", copy},
    {"aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", index_add},
    {"aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", index_copy},
    {"aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", index_fill},
    {"aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor", index_fill},
    {"aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor", index_put},
    {"aten::index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor",
     index_put},
    {"aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> "
     "Tensor",
     index_reduce},
    {"aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", masked_scatter},
    {"aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", put},
    {"aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor", scatter_reducing},
    {"aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", scatter},
    {"aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", scatter},
    {"aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
     scatter_reducing},
    {"aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", scatter_add},
    {"aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) "
     "-> Tensor",
     scatter_reduce},
};

}  // namespace

OpFamily scatter_ops() { return kScatter; }

}  // namespace whence::convert
