// Statistics of a tensor: variance and deviation, histograms and counts, one_hot.
#include <algorithm>
#include <vector>

#include "annotator/convert/axes.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"
#include "annotator/convert/weights.h"
#include "annotator/program/tensor_values.h"

namespace whence::convert {

namespace {

// ---- variance -------------------------------------------------------------------------------------------------------

struct Spread {
  Val input;
  Ints axes;  // not negative; all axes if PyTorch got none
  bool keep = false;
  double correction = 1;  // subtracted from the count of elements
};

Spread read_spread(Ctx& c) {
  Spread spread{c.tensor("self"), {}};
  const int rank = c.rank(spread.input);
  if (rank > 0 && c.schema().find("dim") && c.has("dim")) {
    for (const std::int64_t axis : c.integers("dim")) spread.axes.push_back(c.axis(axis, rank));
  }
  if (spread.axes.empty()) spread.axes = axis_order(rank);
  if (c.schema().find("keepdim")) spread.keep = c.flag("keepdim");
  if (c.schema().find("unbiased")) {
    spread.correction = c.flag("unbiased") ? 1 : 0;
  } else if (c.has("correction")) {
    spread.correction = c.number("correction");
  }
  return spread;
}

// max(0, count - correction), the divisor of the sum of squares.
Val degrees_of_freedom(Ctx& c, const Spread& spread) {
  const DType dtype = c.dtype(spread.input);
  const Val count = spread.axes.empty() ? c.constant_number(1, dtype) : element_count(c, spread.input, spread.axes);
  if (const TensorData* known = c.constant(count)) {
    return c.constant_number(std::max(0.0, program::single_number(*known).value_or(0) - spread.correction), dtype);
  }
  if (spread.correction == 0) return count;
  return c.emit("Max",
                {c.emit("Sub", {count, c.constant_number(spread.correction, dtype)}), c.constant_number(0, dtype)});
}

struct Moments {
  Val variance, mean;
};

Moments moments(Ctx& c, const Spread& spread) {
  const Val mean = reduce_mean(c, spread.input, spread.axes, true);
  const Val centred = c.emit("Sub", {spread.input, mean});
  const Val squares = reduce(c, "ReduceSumSquare", centred, spread.axes, spread.keep);
  return {c.emit("Div", {squares, degrees_of_freedom(c, spread)}), spread.keep ? mean : c.squeeze(mean, spread.axes)};
}

void variance(Ctx& c) { c.yield(moments(c, read_spread(c)).variance); }
void deviation(Ctx& c) { c.yield(c.emit("Sqrt", {moments(c, read_spread(c)).variance})); }

void variance_and_mean(Ctx& c) {
  const Moments found = moments(c, read_spread(c));
  c.yield({found.variance, found.mean});
}

void deviation_and_mean(Ctx& c) {
  const Moments found = moments(c, read_spread(c));
  c.yield({c.emit("Sqrt", {found.variance}), found.mean});
}

// ---- histograms and counts ------------------------------------------------------------------------------------------

// Counts elements in `bins` equal intervals of [min, max]. The last interval is closed, elements outside are not
// counted, and equal bounds mean the smallest and the largest element. The bin is (x - min) * bins / (max - min),
// computed in that order as in aten/src/ATen/native/cpu/HistogramKernel.cpp, PyTorch 2.13.
void histc(Ctx& c) {
  const DType dtype = c.output_dtype();
  const Val x = c.tensor("self");
  const Val flat = c.rank(x) == 1 ? x : c.reshape(x, {std::int64_t{-1}});
  const std::int64_t bins = c.integer("bins");
  const double low = c.number("min"), high = c.number("max");
  Val position, top;
  if (low == high) {
    const Val minimum = reduce(c, "ReduceMin", flat, {0}, true);
    top = reduce(c, "ReduceMax", flat, {0}, true);
    const Val scaled =
        c.emit("Mul", {c.emit("Sub", {flat, minimum}), c.constant_number(static_cast<double>(bins), dtype)});
    position = c.emit("Div", {scaled, c.emit("Sub", {top, minimum})});
  } else {
    top = c.constant_number(high, dtype);
    const Val above = low == 0 ? flat : c.emit("Sub", {flat, c.constant_number(low, dtype)});
    const Val scaled = c.emit("Mul", {above, c.constant_number(static_cast<double>(bins), dtype)});
    position = c.emit("Div", {scaled, c.constant_number(high - low, dtype)});
  }
  const Val last = c.constant_number(static_cast<double>(bins - 1), dtype);
  const Val bin = c.emit("Where", {c.emit("Equal", {flat, top}), last, c.emit("Floor", {position})});
  const Val numbers = c.emit("Range", {c.constant_number(0, dtype), c.constant_number(static_cast<double>(bins), dtype),
                                       c.constant_number(1, dtype)});
  const Val hits = c.typed(c.emit("Equal", {c.unsqueeze(bin, {1}), numbers}), DType::boolean);
  c.yield(reduce(c, "ReduceSum", c.cast(hits, dtype), {0}, false));
}

// 0 and 1 as the two values that OneHot chooses from.
Val off_and_on(Ctx& c, DType dtype) {
  const TensorData off = program::number_scalar(0, dtype), on = program::number_scalar(1, dtype);
  return c.constant_tensor(concatenated({reshaped(off, {1}), reshaped(on, {1})}));
}

// The largest element + 1: an int64 scalar.
Val classes_in(Ctx& c, Val x) {
  const Val largest = reduce(c, "ReduceMax", x, {}, false);
  return c.emit("Add", {largest, c.constant_int(1)});
}

// Counts how often each number occurs in x [n], or sums the weights of its occurrences.
void bincount(Ctx& c) {
  const Val x = c.cast(c.tensor("self"), DType::int64);
  const Size least = c.size("minlength");
  Val classes = classes_in(c, x);
  if (c.static_size(least) != 0) classes = c.emit("Max", {classes, c.to_scalar_value(least)});
  // 0 and 1 are 64-bit integers, because runtimes support few other forms.
  const Val hits = c.typed(c.emit("OneHot", {x, classes, off_and_on(c, DType::int64)}), DType::int64);
  if (!c.has("weights")) return c.yield(reduce(c, "ReduceSum", hits, {0}, false));
  const DType dtype = c.output_dtype();
  c.yield(c.emit("MatMul", {c.cast(c.tensor("weights"), dtype), c.cast(hits, dtype)}));
}

// [*] -> [*, classes]
void one_hot(Ctx& c) {
  const Val x = c.tensor("self");
  const Size requested_classes = c.size("num_classes");
  const auto known = c.static_size(requested_classes);
  const Val classes = known && *known < 0 ? classes_in(c, x) : c.to_scalar_value(requested_classes);
  const bool number = c.rank(x) == 0;  // ONNX has no one-hot vector for a scalar
  const Val vectors = c.emit("OneHot", {number ? c.unsqueeze(x, {0}) : x, classes, off_and_on(c, DType::int64)});
  c.yield(number ? c.squeeze(vectors, {0}) : vectors);
}

const OpEntry kStatistics[] = {
    {"aten::var(Tensor self, bool unbiased=True) -> Tensor", variance},
    {"aten::var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", variance},
    {"aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
     variance},
    {"aten::std(Tensor self, bool unbiased=True) -> Tensor", deviation},
    {"aten::std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", deviation},
    {"aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
     deviation},
    {"aten::var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)", variance_and_mean},
    {"aten::var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
     variance_and_mean},
    {"aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> "
     "(Tensor, Tensor)",
     variance_and_mean},
    {"aten::std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)", deviation_and_mean},
    {"aten::std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
     deviation_and_mean},
    {"aten::std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> "
     "(Tensor, Tensor)",
     deviation_and_mean},
    {"aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", histc},
    {"aten::bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor", bincount},
    {"aten::one_hot(Tensor self, int num_classes=-1) -> Tensor", one_hot},
};

}  // namespace

OpFamily statistics_ops() { return kStatistics; }

}  // namespace whence::convert
