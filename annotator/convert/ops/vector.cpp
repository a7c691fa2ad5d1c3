// Vectors: norms, distances, cosine similarity, cross product, differences of neighbours.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "annotator/convert/axes.h"
#include "annotator/convert/broadcast.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"
#include "annotator/convert/vector_norm.h"

namespace whence::convert {
namespace {

Ints axes_argument(Ctx& c, Val x) {
  Ints axes;
  if (!c.schema().find("dim") || !c.has("dim") || c.rank(x) == 0) return axes;
  for (const std::int64_t axis : c.integers("dim")) axes.push_back(c.axis(axis, c.rank(x)));
  return axes;
}

// Both norm families differ only in the name and the default of the order. A scalar is a vector of one element.
void norm_of_order(Ctx& c, double order) {
  const DType dtype = c.output_dtype();
  const Val x = c.cast(c.tensor("self"), dtype);
  const bool keep = c.schema().find("keepdim") && c.flag("keepdim");
  c.yield(vector_norm(c, x, order, axes_argument(c, c.tensor("self")), keep));
}

void linalg_vector_norm(Ctx& c) { norm_of_order(c, c.number("ord")); }
void norm_p(Ctx& c) { norm_of_order(c, c.has("p") ? c.number("p") : 2); }

void frobenius_norm(Ctx& c) { norm_of_order(c, 2); }

// |x1_i - x2_j|_p for all pairs: [*, P, M], [*, R, M] -> [*, P, R]
void cdist(Ctx& c) {
  const Val a = c.tensor("x1"), b = c.tensor("x2");
  const Val differences = c.emit("Sub", {c.unsqueeze(a, {c.rank(a) - 1}), c.unsqueeze(b, {c.rank(b) - 2})});
  c.yield(vector_norm(c, differences, c.number("p"), {-1}, false));
}

// |x_i - x_j|_p for the pairs i < j of rows [N, M], in the order of i, then j: [N (N - 1) / 2]
void pdist(Ctx& c) {
  const Val x = c.tensor("self");
  const auto count = c.static_dim(x, 0);
  if (!count) c.refuse("pdist of a dynamic number of rows is not supported", "keep axis 0 fixed, or use cdist");
  c.table_size({*count, *count});
  Ints first, second;
  for (std::int64_t i = 0; i < *count; ++i) {
    for (std::int64_t j = i + 1; j < *count; ++j) first.push_back(i), second.push_back(j);
  }
  const Val difference = c.emit("Sub", {c.emit("Gather", {x, c.constant_ints(first)}, {{"axis", 0}}),
                                        c.emit("Gather", {x, c.constant_ints(second)}, {{"axis", 0}})});
  c.yield(vector_norm(c, difference, c.number("p"), {-1}, false));
}

// |x1 - x2 + eps|_p over the last axis
void pairwise_distance(Ctx& c) {
  const DType dtype = c.output_dtype();
  const auto [x1, x2] = c.promoted(c.tensor("x1"), c.tensor("x2"));
  const Val difference = c.cast(c.typed(c.emit("Sub", {x1, x2}), c.dtype(x1)), dtype);
  const Val shifted = c.emit("Add", {difference, c.constant_number(c.number("eps"), dtype)});
  c.yield(vector_norm(c, shifted, c.number("p"), {-1}, c.flag("keepdim")));
}

// Sum of x1 / max(|x1|, eps) * x2 / max(|x2|, eps) over `dim`, which counts in the broadcast shape.
void cosine_similarity(Ctx& c) {
  const DType dtype = c.output_dtype();
  Val a = at_least_vector(c, c.tensor("x1")), b = at_least_vector(c, c.tensor("x2"));
  const int rank = std::max(c.rank(a), c.rank(b));
  const std::int64_t axis = c.axis(c.integer("dim"), rank), from_end = axis - rank;
  const auto size = [&](Val x) { return c.dims(x)[static_cast<std::size_t>(c.rank(x) + from_end)]; };
  const bool both_have_axis = std::min(c.rank(a), c.rank(b)) + from_end >= 0;
  if (!both_have_axis || size(a) != size(b)) {  // the norm counts repeated elements
    const Val narrow = a;
    a = broadcast(c, a, {b});
    b = broadcast(c, b, {narrow});
  }
  const Val eps = c.constant_number(c.number("eps"), dtype);
  const auto normed = [&](Val x) {
    const Ints along{c.axis(from_end, c.rank(x))};
    return c.emit("Div", {x, c.emit("Max", {reduce(c, "ReduceL2", x, along, true), eps})});
  };
  c.yield(reduce(c, "ReduceSum", c.emit("Mul", {normed(a), normed(b)}), {axis}, false));
}

// |self - other|_p over all elements
void dist(Ctx& c) {
  const DType dtype = c.output_dtype();
  const Val difference = c.emit("Sub", {c.cast(c.tensor("self"), dtype), c.cast(c.tensor("other"), dtype)});
  const int rank = std::max(c.rank(c.tensor("self")), c.rank(c.tensor("other")));
  if (rank == 0) return c.yield(c.emit("Abs", {difference}));
  c.yield(vector_norm(c, difference, c.number("p"), {}, false));
}

// a x b along an axis of three: a[1, 2, 0] * b[2, 0, 1] - a[2, 0, 1] * b[1, 2, 0]
Val cross_along(Ctx& c, Val a, Val b, std::int64_t axis_from_end) {
  const auto turned = [&](Val x, const Ints& order) {
    return c.emit("Gather", {x, c.constant_ints(order)}, {{"axis", c.rank(x) + axis_from_end}});
  };
  const Val left = c.emit("Mul", {turned(a, {1, 2, 0}), turned(b, {2, 0, 1})});
  const Val right = c.emit("Mul", {turned(a, {2, 0, 1}), turned(b, {1, 2, 0})});
  return c.emit("Sub", {left, right});
}

void linalg_cross(Ctx& c) {
  const Val a = c.tensor("self"), b = c.tensor("other");
  const int rank = std::max(c.rank(a), c.rank(b));
  c.yield(cross_along(c, a, b, c.axis(c.integer("dim"), rank) - rank));
}

// Without `dim`, uses the first axis of size three.
void cross(Ctx& c) {
  const Val a = c.tensor("self"), b = c.tensor("other");
  const int rank = c.rank(a);
  std::int64_t axis = c.has("dim") ? c.axis(c.integer("dim"), rank) : 0;
  if (!c.has("dim")) {
    while (axis < rank && c.static_dim(a, axis) != std::int64_t{3}) ++axis;
    if (axis == rank) c.refuse("cross without an axis whose size is known to be 3 is not supported", "pass dim");
  }
  c.yield(cross_along(c, a, b, axis - rank));
}

// x[1:] - x[:-1] along an axis, n times; booleans give whether they differ. For n = 0 nothing is prepended or appended.
void diff(Ctx& c) {
  Val x = c.tensor("self");
  constexpr std::int64_t max_order = 10000;  // each order adds nodes
  if (c.integer("n") == 0) return c.yield(x);
  if (c.integer("n") > max_order) c.refuse("n is larger than " + std::to_string(max_order), "take fewer differences");
  const DType dtype = c.output_dtype();
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  std::vector<Val> parts;
  if (c.has("prepend")) parts.push_back(c.cast(c.tensor("prepend"), dtype));
  parts.push_back(c.cast(x, dtype));
  if (c.has("append")) parts.push_back(c.cast(c.tensor("append"), dtype));
  x = parts.size() == 1 ? parts.front() : c.emit("Concat", parts, {{"axis", axis}});
  const Val axes = c.constant_ints({axis}), first = c.constant_ints({0}), second = c.constant_ints({1});
  for (std::int64_t n = c.integer("n"); n > 0; --n) {
    const Val later = c.emit("Slice", {x, second, c.constant_ints({INT64_MAX}), axes});
    const Val earlier = c.emit("Slice", {x, first, c.constant_ints({-1}), axes});
    x = c.emit(dtype == DType::boolean ? "Xor" : "Sub", {later, earlier});
  }
  c.yield(x);
}

// Scales each slice along dim whose norm exceeds maxnorm down to that norm. ATen also adds 1e-7.
void renorm(Ctx& c) {
  const Val x = c.tensor("self");
  const DType dtype = c.output_dtype();
  const std::int64_t dim = c.axis(c.integer("dim"), c.rank(x));
  Ints others;
  for (std::int64_t axis = 0; axis < c.rank(x); ++axis) {
    if (axis != dim) others.push_back(axis);
  }
  const Val norm = vector_norm(c, x, c.number("p"), others, true),
            limit = c.constant_number(c.number("maxnorm"), dtype);
  const Val shorter = c.emit("Div", {limit, c.emit("Add", {norm, c.constant_number(1e-7, dtype)})});
  const Val factor = c.emit("Where", {c.emit("Greater", {norm, limit}), shorter, c.constant_number(1, dtype)});
  c.yield(c.emit("Mul", {x, factor}));
}

const OpEntry kVector[] = {
    {"aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
     "ScalarType? dtype=None) -> Tensor",
     linalg_vector_norm},
    {"aten::renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", renorm},
    {"aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor", norm_p},
    {"aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor", norm_p},
    {"aten::norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor", norm_p},
    {"aten::norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor",
     norm_p},
    {"aten::frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", frobenius_norm},
    {"aten::cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor", cdist},
    {"aten::_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor", cdist},
    {"aten::pdist(Tensor self, float p=2.) -> Tensor", pdist},
    {"aten::_pdist_forward(Tensor self, float p=2.) -> Tensor", pdist},
    {"aten::pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, "
     "bool keepdim=False) -> Tensor",
     pairwise_distance},
    {"aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", cosine_similarity},
    {"aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor", linalg_cross},
    {"aten::cross(Tensor self, Tensor other, int? dim=None) -> Tensor", cross},
    {"aten::dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", dist},
    {"aten::diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor", diff},
};

}  // namespace

OpFamily vector_ops() { return kVector; }

}  // namespace whence::convert
