// Emits reductions in the form that each opset requires.
#include "annotator/convert/reduce.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "annotator/convert/axes.h"
#include "annotator/program/number_range.h"

namespace whence::convert {

Val reduce(Ctx& c, std::string_view op_type, Val value, const Ints& axes, bool keep_dims) {
  Attributes attributes;
  std::vector<Val> inputs{value};
  if (!axes.empty()) {
    if (op_type == "ReduceSum" || c.opset() >= 18) {
      inputs.push_back(c.constant_ints(axes));
    } else {
      attributes.push_back({"axes", axes});
    }
  }
  if (!keep_dims) attributes.push_back({"keepdims", 0});
  return c.emit(op_type, std::move(inputs), std::move(attributes));
}

Val element_count(Ctx& c, Val value, const Ints& axes) {
  const DType dtype = c.dtype(value);
  std::int64_t fixed = 1;
  Val count;
  for (const std::int64_t axis : axes.empty() ? axis_order(c.rank(value)) : axes) {
    if (const auto size = c.static_dim(value, axis)) {
      fixed *= *size;
    } else {
      const Val dynamic = c.dim_of(value, axis);
      count = count ? c.emit("Mul", {count, dynamic}) : dynamic;
    }
  }
  if (!count) return c.constant_number(static_cast<double>(fixed), dtype);
  if (fixed != 1) count = c.emit("Mul", {count, c.constant_int(fixed)});
  return c.cast(c.typed(count, DType::int64), dtype);
}

// 0 / n is NaN only for n = 0.
Val reduce_mean(Ctx& c, Val value, const Ints& axes, bool keep_dims) {
  const Val mean = reduce(c, "ReduceMean", value, axes, keep_dims);
  const std::vector<std::int64_t> reduced = axes.empty() ? axis_order(c.rank(value)) : axes;
  const auto never_empty = [&](std::int64_t axis) { return c.static_dim(value, axis).value_or(0) > 0; };
  if (std::ranges::all_of(reduced, never_empty)) return mean;
  return c.emit("Add", {mean, c.emit("Div", {c.constant_number(0, c.dtype(value)), element_count(c, value, axes)})});
}

// Adds the sum of the NaN elements: NaN if there are any, otherwise 0.
Val reduce_with_nan(Ctx& c, std::string_view op_type, Val value, const Ints& axes, bool keep_dims) {
  const DType dtype = c.dtype(value);
  const Val result = reduce(c, op_type, value, axes, keep_dims);
  if (!is_floating(dtype)) return result;
  const Val nan = c.emit("Where", {c.emit("IsNaN", {value}), value, c.constant_number(0, dtype)});
  return c.emit("Add", {result, reduce(c, "ReduceSum", c.typed(nan, dtype, c.dims(value)), axes, keep_dims)});
}

Val with_nan_as_extreme(Ctx& c, Val value, bool greatest) {
  const DType dtype = c.dtype(value);
  if (!is_floating(dtype)) return value;
  const double sign = greatest ? 1 : -1;
  const Val largest = c.constant_number(sign * program::greatest_finite(dtype), dtype);
  const Val finite = c.emit(greatest ? "Min" : "Max", {value, largest});
  const Val infinity = c.constant_number(sign * std::numeric_limits<double>::infinity(), dtype);
  return c.typed(c.emit("Where", {c.emit("IsNaN", {value}), infinity, finite}), dtype, c.dims(value));
}

}  // namespace whence::convert
