// Running products, extremes and log-sums along an axis: element i is computed from elements 0 to i.
//
// ONNX has a running sum, and since opset 26 a running product. The other operators double their reach: after the step
// with distance d, every element covers the 2d elements up to it, so an axis of n elements needs log2(n) steps. For a
// dynamic n, a mask gives every element a row of all elements up to it, and the rows are reduced: n times the memory.
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "annotator/convert/ops/elementwise.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"

namespace whence::convert {
namespace {

using Parts = std::vector<Val>;  // the carried values: one, and its index if that is a result

// Shifts x by `distance` along the axis; `fill` enters at the front.
Val moved(Ctx& c, Val x, std::int64_t axis, std::int64_t distance, double fill) {
  const DType dtype = c.dtype(x);
  const std::vector<Dim> dims = c.dims(x);
  const std::int64_t rest = dims[axis].size - distance;
  const Val front = c.emit("Slice", {x, c.constant_ints({0}), c.constant_ints({rest}), c.constant_ints({axis})});
  Ints pads(2 * dims.size(), 0);
  pads[axis] = distance;
  const Val padded = c.emit("Pad", {c.typed(front, dtype), c.constant_ints(pads), c.constant_number(fill, dtype)});
  return c.typed(padded, dtype, dims);
}

// `join` combines the values of the elements before an element with the element's own.
Parts running(Ctx& c, Parts parts, const std::vector<double>& fills,
              const std::function<Parts(const Parts& before, const Parts& own)>& join) {
  const std::vector<Dim> dims = c.dims(parts[0]);
  if (dims.empty()) return parts;
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(parts[0]));
  const auto size = c.static_dim(parts[0], axis);
  if (*size > max_count) c.refuse("an axis of " + std::to_string(*size) + " elements is too long", "use smaller sizes");
  for (std::int64_t distance = 1; distance < *size; distance *= 2) {
    Parts before;
    for (std::size_t i = 0; i < parts.size(); ++i) before.push_back(moved(c, parts[i], axis, distance, fills[i]));
    const std::vector<Val> own = parts;
    parts = join(before, own);
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = c.typed(parts[i], c.dtype(own[i]), dims);
  }
  return parts;
}

// Returns true if the axis that the operator runs along has a dynamic size.
bool runs_along_dynamic(Ctx& c, Val x) {
  return c.rank(x) > 0 && !c.static_dim(x, c.axis(c.integer("dim"), c.rank(x)));
}

// [*, n, *] as [*, *, n, n], where row i holds elements 0 to i, then `fill`.
Val rows_up_to_each(Ctx& c, Val x, double fill) {
  const DType dtype = c.dtype(x);
  const int rank = c.rank(x);
  const std::int64_t axis = c.axis(c.integer("dim"), rank);
  Ints last;
  for (std::int64_t i = 0; i < rank; ++i) {
    if (i != axis) last.push_back(i);
  }
  last.push_back(axis);
  const Val indices = c.emit("Range", {c.constant_int(0), c.dim_of(x, axis), c.constant_int(1)});
  const Val before = c.emit("LessOrEqual", {indices, c.unsqueeze(indices, {1})});
  const Val line = c.unsqueeze(c.transpose(x, last), {rank - 1});
  std::vector<Dim> dims(rank + 1, Dim{-1, true, none_id});
  return c.typed(c.emit("Where", {before, line, c.constant_number(fill, dtype)}), dtype, std::move(dims));
}

// Moves the last axis back to its place.
Val axis_back(Ctx& c, Val y, int rank) {
  const std::int64_t axis = c.axis(c.integer("dim"), rank);
  Ints order;
  for (std::int64_t i = 0; i < rank; ++i) order.push_back(i < axis ? i : i == axis ? rank - 1 : i - 1);
  return c.transpose(y, order);
}

void cumprod(Ctx& c) {
  const DType result = c.output_dtype(), dtype = arithmetic_dtype(result);
  const Val x = c.cast(c.cast(c.tensor("self"), result), dtype);
  if (c.writes("CumProd") && c.rank(x) > 0) {
    return c.yield(c.emit("CumProd", {x, c.constant_int(c.axis(c.integer("dim"), c.rank(x)))}));
  }
  if (runs_along_dynamic(c, x)) {
    return c.yield(axis_back(c, reduce(c, "ReduceProd", rows_up_to_each(c, x, 1), {-1}, false), c.rank(x)));
  }
  c.yield(running(c, {x}, {1},
                  [&](const Parts& before, const Parts& own) { return Parts{c.emit("Mul", {before[0], own[0]})}; })[0]);
}

// Subtracts the greatest element of each row before Exp, unless it is infinite.
Val log_sum_of_rows(Ctx& c, Val x) {
  const DType dtype = c.dtype(x);
  const Val rows = rows_up_to_each(c, x, -std::numeric_limits<double>::infinity());
  const Val greatest = reduce(c, "ReduceMax", rows, {-1}, true);
  const Val finite = c.emit("Where", {c.emit("IsInf", {greatest}), c.constant_number(0, dtype), greatest});
  const Val sum = reduce(c, "ReduceSum", c.emit("Exp", {c.emit("Sub", {rows, finite})}), {-1}, false);
  return c.emit("Add", {c.emit("Log", {sum}), c.squeeze(finite, {-1})});
}

// log(exp(a) + exp(b)) is the larger of both plus log(1 + exp(-|a - b|)); the difference of equal infinities counts as
// 0.
void logcumsumexp(Ctx& c) {
  const Val x = self_as_result(c);
  const DType dtype = c.output_dtype();
  if (runs_along_dynamic(c, x)) return c.yield(axis_back(c, log_sum_of_rows(c, x), c.rank(x)));
  const auto join = [&](const Parts& before, const Parts& own) {
    const Val &a = before[0], &b = own[0];
    const Val apart = c.emit("Abs", {c.emit("Sub", {a, b})});
    const Val gap = c.emit("Where", {c.emit("Equal", {a, b}), c.constant_number(0, dtype), apart});
    const Val sum = c.emit("Add", {c.emit("Exp", {c.emit("Neg", {gap})}), c.constant_number(1, dtype)});
    return Parts{c.emit("Add", {c.emit("Max", {a, b}), c.emit("Log", {sum})})};
  };
  c.yield(running(c, {x}, {-std::numeric_limits<double>::infinity()}, join)[0]);
}

double lowest(DType dtype) {
  if (is_floating(dtype)) return -std::numeric_limits<double>::infinity();
  return dtype == DType::int64 ? static_cast<double>(std::numeric_limits<std::int64_t>::min())
                               : static_cast<double>(std::numeric_limits<std::int32_t>::min());
}

double highest(DType dtype) {
  if (is_floating(dtype)) return std::numeric_limits<double>::infinity();
  return dtype == DType::int64 ? 9223372036854774784.0  // the largest double below 2^63
                               : static_cast<double>(std::numeric_limits<std::int32_t>::max());
}

// Values and indices. Among equal elements the last one counts; the last NaN takes precedence over all others.
void running_extreme(Ctx& c, const char* holds, bool greatest) {
  const Val self = c.tensor("self");
  const DType self_dtype = c.dtype(self),
              dtype = self_dtype == DType::boolean ? DType::int32 : arithmetic_dtype(self_dtype);
  const Val x = c.typed(c.cast(self, dtype), dtype, c.dims(self));
  if (c.rank(x) == 0) return c.yield({x, c.constant_int(0)});
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  const auto size = c.static_dim(x, axis);
  if (!size) {
    const Val rows = rows_up_to_each(c, x, greatest ? lowest(dtype) : highest(dtype));
    const Val values = reduce_with_nan(c, greatest ? "ReduceMax" : "ReduceMin", rows, {-1}, false);
    const Val indices = c.emit(greatest ? "ArgMax" : "ArgMin", {with_nan_as_extreme(c, rows, greatest)},
                               {{"axis", -1}, {"keepdims", 0}, {"select_last_index", 1}});
    // An element equal to the fill value may be found after the end of its row; then it is the row's last element.
    const Val ends = c.emit("Range", {c.constant_int(0), c.dim_of(x, axis), c.constant_int(1)});
    const Val within = c.emit("Min", {indices, ends});
    return c.yield({axis_back(c, values, c.rank(x)), axis_back(c, within, c.rank(x))});
  }
  Ints numbers(c.table_size({*size})), shape(c.rank(x), 1);
  for (std::int64_t i = 0; i < *size; ++i) numbers[i] = i;
  shape[axis] = *size;
  const Val line = c.emit("Reshape", {c.constant_ints(numbers), c.constant_ints(shape)});
  const Val indices = c.typed(c.emit("Expand", {line, c.emit("Shape", {x})}), DType::int64, c.dims(x));
  const auto join = [&](const Parts& before, const Parts& own) {
    Val keep = c.emit(holds, {own[0], before[0]});
    if (is_floating(dtype)) keep = c.emit("Or", {keep, c.emit("IsNaN", {own[0]})});
    return Parts{c.emit("Where", {keep, own[0], before[0]}), c.emit("Where", {keep, own[1], before[1]})};
  };
  const Parts found = running(c, {x, indices}, {greatest ? lowest(dtype) : highest(dtype), 0}, join);
  c.yield({found[0], found[1]});
}

void cummax(Ctx& c) { running_extreme(c, "GreaterOrEqual", true); }
void cummin(Ctx& c) { running_extreme(c, "LessOrEqual", false); }

const OpEntry kRunning[] = {
    {"aten::cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", cummax},
    {"aten::cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", cummin},
    {"aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", cumprod},
    {"aten::logcumsumexp(Tensor self, int dim) -> Tensor", logcumsumexp},
};

}  // namespace

OpFamily running_ops() { return kRunning; }

}  // namespace whence::convert
