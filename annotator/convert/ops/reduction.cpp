// Reductions over axes, and running sums. An absent or empty list of axes means all axes. PyTorch also accepts axis 0
// of a scalar; ONNX does not, so scalars are passed through.
#include "annotator/convert/ops/elementwise.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"

namespace whence::convert {
namespace {

// Returns the axes in argument `name`, one or several, as nonnegative numbers.
Ints axes_argument(Ctx& c, std::string_view name, int rank) {
  Ints axes;
  if (!c.has(name)) return axes;
  for (const std::int64_t axis : c.integers(name)) axes.push_back(c.axis(axis, rank));
  return axes;
}

struct Reduction {
  Val value;
  Ints axes;  // empty: all
  bool keep = false;
};

// Reads self, dim and keepdim of an operator that takes a list of axes (or, without `dim`, reduces all).
Reduction over_axes(Ctx& c) {
  const Val x = c.tensor("self");
  if (!c.schema().find("dim") || c.rank(x) == 0) return {x, {}, false};
  return {x, axes_argument(c, "dim", c.rank(x)), c.flag("keepdim")};
}

// Like over_axes(), for a `dim` that is a single axis.
Reduction over_axis(Ctx& c) {
  const Val x = c.tensor("self");
  if (c.rank(x) == 0) return {x, {}, false};
  return {x, {c.axis(c.integer("dim"), c.rank(x))}, c.flag("keepdim")};
}

// Applies op to r.value in `dtype`.
Val reduced(Ctx& c, std::string_view op, const Reduction& r, DType dtype) {
  const Val x = c.cast(r.value, dtype);
  if (c.rank(x) == 0) return x;
  if (op == "ReduceMean") return reduce_mean(c, x, r.axes, r.keep);
  const bool overlooks_nan = op == "ReduceMax" || op == "ReduceMin" || op == "ReduceLogSumExp";
  return overlooks_nan ? reduce_with_nan(c, op, x, r.axes, r.keep) : reduce(c, op, x, r.axes, r.keep);
}

// Booleans and integers are summed, multiplied and averaged in the result's dtype.
template <OpName op>
void accumulate(Ctx& c) {
  c.yield(reduced(c, op.text, over_axes(c), c.output_dtype()));
}
template <OpName op>
void accumulate_axis(Ctx& c) {
  c.yield(reduced(c, op.text, over_axis(c), c.output_dtype()));
}

// Minimum and maximum keep the dtype; booleans and narrow integers are compared in 32 bits.
Val extreme(Ctx& c, std::string_view op, const Reduction& r) {
  const DType dtype = c.dtype(r.value);
  return reduced(c, op, r, dtype == DType::boolean ? DType::int32 : arithmetic_dtype(dtype));
}
template <OpName op>
void extreme_of(Ctx& c) {
  c.yield(extreme(c, op.text, over_axes(c)));
}

// Index of the first greatest (or least) element along `axis`, or of the first NaN.
Val position(Ctx& c, std::string_view op, Val x, std::int64_t axis, bool keep) {
  const DType dtype = c.dtype(x);
  if (dtype == DType::boolean || size_of(dtype) == 2) x = c.cast(x, is_floating(dtype) ? DType::float32 : DType::int32);
  x = with_nan_as_extreme(c, x, op == "ArgMax");
  Attributes attributes{{"axis", axis}};
  if (!keep) attributes.push_back({"keepdims", 0});
  return c.emit(op, {x}, attributes);
}

// Values and indices along one axis.
void extreme_with_position(Ctx& c, std::string_view reduction, std::string_view arg) {
  const Reduction r = over_axis(c);
  if (c.rank(r.value) == 0) return c.yield({r.value, c.constant_int(0)});
  c.yield({extreme(c, reduction, r), position(c, arg, r.value, r.axes[0], r.keep)});
}
void max_dim(Ctx& c) { extreme_with_position(c, "ReduceMax", "ArgMax"); }
void min_dim(Ctx& c) { extreme_with_position(c, "ReduceMin", "ArgMin"); }

// Without dim, the index counts in the flattened tensor.
template <OpName op>
void arg_extreme(Ctx& c) {
  const Val x = c.tensor("self");
  if (c.rank(x) == 0) return c.yield(c.constant_int(0));
  const bool keep = c.flag("keepdim");
  if (c.has("dim")) return c.yield(position(c, op.text, x, c.axis(c.integer("dim"), c.rank(x)), keep));
  const Val flat = c.rank(x) == 1 ? x : c.reshape(x, {-1});
  const Val found = position(c, op.text, flat, 0, false);
  if (!keep) return c.yield(found);
  c.yield(c.emit("Reshape", {found, c.constant_ints(Ints(c.rank(x), 1))}));
}

void aminmax(Ctx& c) {
  Reduction r{c.tensor("self"), {}, c.flag("keepdim")};
  if (c.has("dim") && c.rank(r.value) > 0) r.axes = {c.axis(c.integer("dim"), c.rank(r.value))};
  c.yield({extreme(c, "ReduceMin", r), extreme(c, "ReduceMax", r)});
}

// Elements count as true if they are not zero.
void any_or_all(Ctx& c, std::string_view op, const Reduction& r) {
  const Val flags = c.cast(c.cast(r.value, DType::boolean), DType::int32);
  c.yield(c.cast(reduced(c, op, {flags, r.axes, r.keep}, DType::int32), DType::boolean));
}
// any() sums the true elements: the sum of no elements is 0, but their maximum is the lowest number of the dtype.
void any(Ctx& c) { any_or_all(c, "ReduceSum", over_axes(c)); }
void all(Ctx& c) { any_or_all(c, "ReduceMin", over_axes(c)); }
void any_axis(Ctx& c) { any_or_all(c, "ReduceSum", over_axis(c)); }
void all_axis(Ctx& c) { any_or_all(c, "ReduceMin", over_axis(c)); }

// The number of elements that are not zero.
void count_nonzero(Ctx& c) {
  Reduction r{c.tensor("self"), {}, false};
  if (c.rank(r.value) > 0) r.axes = axes_argument(c, "dim", c.rank(r.value));
  r.value = c.cast(r.value, DType::boolean);
  c.yield(reduced(c, "ReduceSum", r, DType::int64));
}

// Running sums; narrow and boolean inputs are summed in the result's dtype.
Val running_sum(Ctx& c, Val x) {
  if (c.rank(x) == 0) return x;
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  return c.emit("CumSum", {c.cast(x, arithmetic_dtype(c.output_dtype())), c.constant_int(axis)});
}
void cumsum(Ctx& c) { c.yield(running_sum(c, self_as_result(c))); }

// Sums all elements except NaN.
void nansum(Ctx& c) {
  Reduction r = over_axes(c);
  const DType dtype = c.dtype(r.value);
  if (is_floating(dtype)) {
    const Val rest = c.emit("Where", {c.emit("IsNaN", {r.value}), c.constant_number(0, dtype), r.value});
    r.value = c.typed(rest, dtype, c.dims(r.value));
  }
  c.yield(reduced(c, "ReduceSum", r, c.output_dtype()));
}

// Reduces all axes if dims is None.
void product_of_axes(Ctx& c) {
  const Val x = c.cast(c.tensor("inp"), c.output_dtype());
  c.yield(reduce(c, "ReduceProd", x, c.has("dims") ? c.integers("dims") : Ints(), false));
}

const OpEntry kReduction[] = {
    {"aten::all(Tensor self) -> Tensor", all},
    {"aten::all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", all_axis},
    {"aten::all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", all},
    {"aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", extreme_of<"ReduceMax">},
    {"aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", extreme_of<"ReduceMin">},
    {"aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)", aminmax},
    {"aten::any(Tensor self) -> Tensor", any},
    {"aten::any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", any_axis},
    {"aten::any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", any},
    {"aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", arg_extreme<"ArgMax">},
    {"aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", arg_extreme<"ArgMin">},
    {"aten::count_nonzero(Tensor self, int? dim=None) -> Tensor", count_nonzero},
    {"aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", count_nonzero},
    {"aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", cumsum},
    {"aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", accumulate<"ReduceLogSumExp">},
    {"aten::max(Tensor self) -> Tensor", extreme_of<"ReduceMax">},
    {"aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", max_dim},
    {"aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", accumulate<"ReduceMean">},
    {"aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     accumulate<"ReduceMean">},
    {"aten::min(Tensor self) -> Tensor", extreme_of<"ReduceMin">},
    {"aten::min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", min_dim},
    {"aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", nansum},
    {"aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", accumulate<"ReduceProd">},
    {"aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     accumulate_axis<"ReduceProd">},
    {"aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", accumulate<"ReduceSum">},
    {"aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     accumulate<"ReduceSum">},
    {"prims::prod(Tensor inp, int[]? dims, *, ScalarType? output_dtype=None) -> Tensor", product_of_axes},
};

}  // namespace

OpFamily reduction_ops() { return kReduction; }

}  // namespace whence::convert
