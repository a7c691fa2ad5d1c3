// Running products, extremes and log-sums along an axis: element i is made of elements 0 to i.
//
// ONNX has a running sum only. The others double their reach: after a step with distance d every element stands for the
// 2d elements up to it, so log2(n) steps do, where n is the size of the axis, which has to be known.
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "annotator/export/ops/elementwise.h"
#include "annotator/export/ops/families.h"

namespace whence {
namespace {

using Parts = std::vector<Val>;  // what is carried along: a value, and its position where that is asked for

// x moved by `distance` along the axis; what comes in at the front is `fill`.
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

// `join` makes of what stands before an element, and of the element's own, what stands for both.
Parts running(Ctx& c, Parts parts, const std::vector<double>& fills,
              const std::function<Parts(const Parts& before, const Parts& own)>& join) {
  const std::vector<Dim> dims = c.dims(parts[0]);
  if (dims.empty()) return parts;
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(parts[0]));
  const auto size = c.static_dim(parts[0], axis);
  if (!size) c.refuse("it runs along an axis whose size is dynamic", "leave that axis out of --dynamic");
  for (std::int64_t distance = 1; distance < *size; distance *= 2) {
    Parts before;
    for (std::size_t i = 0; i < parts.size(); ++i) before.push_back(moved(c, parts[i], axis, distance, fills[i]));
    const std::vector<Val> own = parts;
    parts = join(before, own);
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = c.typed(parts[i], c.dtype(own[i]), dims);
  }
  return parts;
}

void cumprod(Ctx& c) {
  const DType result = c.output_dtype(), dtype = arithmetic_dtype(result);
  const Val x = c.cast(c.cast(c.tensor("self"), result), dtype);
  c.yield(running(c, {x}, {1}, [&](const Parts& before, const Parts& own) {
    return Parts{c.emit("Mul", {before[0], own[0]})};
  })[0]);
}

// log(exp(a) + exp(b)) is the larger of both and log(1 + exp(-|a - b|)), where equal infinities differ by nothing.
void logcumsumexp(Ctx& c) {
  const Val x = self_as_result(c);
  const DType dtype = c.output_dtype();
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

// Values and positions. Of equal elements the last counts, and the last NaN before all others.
void running_extreme(Ctx& c, const char* holds, bool greatest) {
  const Val self = c.tensor("self");
  const DType given = c.dtype(self), dtype = given == DType::boolean ? DType::int32 : arithmetic_dtype(given);
  const Val x = c.typed(c.cast(self, dtype), dtype, c.dims(self));
  if (c.rank(x) == 0) return c.yield({x, c.constant_int(0)});
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  const auto size = c.static_dim(x, axis);
  if (!size) c.refuse("it runs along an axis whose size is dynamic", "leave that axis out of --dynamic");
  Ints numbers(*size), shape(c.rank(x), 1);
  for (std::int64_t i = 0; i < *size; ++i) numbers[i] = i;
  shape[axis] = *size;
  const Val line = c.emit("Reshape", {c.constant_ints(numbers), c.constant_ints(shape)});
  const Val places = c.typed(c.emit("Expand", {line, c.emit("Shape", {x})}), DType::int64, c.dims(x));
  const auto join = [&](const Parts& before, const Parts& own) {
    Val keep = c.emit(holds, {own[0], before[0]});
    if (is_floating(dtype)) keep = c.emit("Or", {keep, c.emit("IsNaN", {own[0]})});
    return Parts{c.emit("Where", {keep, own[0], before[0]}), c.emit("Where", {keep, own[1], before[1]})};
  };
  const Parts found = running(c, {x, places}, {greatest ? lowest(dtype) : highest(dtype), 0}, join);
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

}  // namespace whence
