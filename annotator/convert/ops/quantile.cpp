// Quantiles: sorts an axis, and interpolates between two elements.
//
// Follows aten/src/ATen/native/Sorting.cpp, PyTorch 2.13: the rank is q * (n - 1) among n elements. A slice that holds
// NaN gives NaN; nanquantile leaves NaN out, so that every slice has its own n.
#include <cmath>
#include <limits>

#include "annotator/convert/lerp.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"

namespace whence::convert {
namespace {

// The input with the reduced axis moved to the end; without dim, all elements as one vector.
struct Slices {
  Val x;
  Val size;           // size of the last axis, a scalar
  std::int64_t axis;  // its number in the input
};

Slices slices(Ctx& c) {
  const Val x = c.tensor("self");
  const DType dtype = c.dtype(x);
  const int rank = c.rank(x);
  if (!c.has("dim") || rank == 0) {
    const Val flat = c.typed(c.reshape(x, {std::int64_t{-1}}), dtype, std::vector<Dim>{Dim{-1, true, none_id}});
    return {flat, c.emit("Size", {x}), 0};
  }
  const std::int64_t axis = c.axis(c.integer("dim"), rank);
  Ints order;
  std::vector<Dim> dims;
  for (std::int64_t i = 0; i < rank; ++i) {
    if (i != axis) order.push_back(i), dims.push_back(c.dims(x)[i]);
  }
  order.push_back(axis);
  dims.push_back(c.dims(x)[axis]);
  return {c.typed(c.transpose(x, order), dtype, dims), c.dim_of(x, axis), axis};
}

Val ascending(Ctx& c, Val x, Val size) {
  return c.emit_many("TopK", {x, c.unsqueeze(size, {0})}, {{"largest", 0}}, 2)[0];
}

// The integer ranks below and above the requested rank, and its fraction between them; one half if `share` is absent.
struct RankInterval {
  Val below, above, share;
};

RankInterval rank_interval(Ctx& c, Val rank) {
  const std::string how = c.one_of("interpolation", {"linear", "lower", "higher", "midpoint", "nearest"});
  const Val below = c.emit("Floor", {rank}), above = c.emit("Ceil", {rank});
  if (how == "lower") return {below, absent, absent};
  if (how == "higher") return {above, absent, absent};
  if (how == "nearest") return {c.emit("Round", {rank}), absent, absent};
  return {below, above, how == "midpoint" ? absent : c.emit("Sub", {rank, below})};
}

// [*, q]: the elements of the sorted slices [*, n] at ranks [q], or [*, q] if each slice has its own ranks.
Val at_ranks(Ctx& c, const Slices& s, Val sorted, Val ranks, bool per_slice_ranks) {
  const DType dtype = c.dtype(s.x);
  const RankInterval interval = rank_interval(c, ranks);
  const auto element = [&](Val rank) {
    const Val index = c.emit("Cast", {rank}, {{"to", static_cast<std::int64_t>(to_onnx(DType::int64))}});
    const Val found = per_slice_ranks ? c.emit("GatherElements", {sorted, index}, {{"axis", -1}})
                                      : c.emit("Gather", {sorted, index}, {{"axis", c.rank(s.x) - 1}});
    return c.typed(found, dtype);
  };
  const Val low = element(interval.below);
  if (!interval.above) return low;
  const Val high = element(interval.above);
  return interval.share ? lerp_by(c, low, high, interval.share) : lerp_by(c, low, high, 0.5);
}

// Arranges [*, q] like PyTorch: the axis of the quantiles first, without it if q is a scalar; keepdim keeps the reduced
// axis with size 1.
void yield_quantiles(Ctx& c, Val result, const Slices& s, bool several) {
  const int input_rank = c.rank(c.tensor("self")), others = c.rank(s.x) - 1;
  if (several) {
    Ints order{others};
    for (std::int64_t i = 0; i < others; ++i) order.push_back(i);
    result = c.transpose(result, order);
  } else {
    result = c.squeeze(result, {others});
  }
  if (c.flag("keepdim")) {
    const std::int64_t front = several ? 1 : 0;
    Ints ones;
    for (std::int64_t i = 0; i < input_rank; ++i) {
      if (others == 0 || i == s.axis) ones.push_back(front + i);
    }
    result = c.unsqueeze(result, ones);
  }
  c.yield(result);
}

// The requested quantiles, [q].
Val requested_quantiles(Ctx& c, DType dtype) {
  const Val q = c.scalar("q", dtype);
  return c.rank(q) == 0 ? c.unsqueeze(q, {0}) : q;
}

bool several(Ctx& c) { return c.rank(c.tensor("q")) == 1; }

Val not_a_number(Ctx& c, DType dtype) { return c.constant_number(std::numeric_limits<double>::quiet_NaN(), dtype); }

void quantile(Ctx& c) {
  const Slices s = slices(c);
  const DType dtype = c.dtype(s.x);
  const Val last = c.cast(c.typed(c.emit("Sub", {s.size, c.constant_int(1)}), DType::int64), dtype);
  const Val ranks = c.emit("Mul", {requested_quantiles(c, dtype), last});
  const Val found = at_ranks(c, s, ascending(c, s.x, s.size), ranks, false);
  const Val flags = c.cast(c.typed(c.emit("IsNaN", {s.x}), DType::boolean, c.dims(s.x)), DType::int32);
  const Val spoiled = c.emit("Cast", {reduce(c, "ReduceMax", flags, {-1}, true)},
                             {{"to", static_cast<std::int64_t>(to_onnx(DType::boolean))}});
  yield_quantiles(c, c.emit("Where", {spoiled, not_a_number(c, dtype), found}), s, several(c));
}

// NaN counts as infinity, so that it sorts last and no rank reaches it.
void nanquantile(Ctx& c) {
  const Slices s = slices(c);
  const DType dtype = c.dtype(s.x);
  const Val missing = c.typed(c.emit("IsNaN", {s.x}), DType::boolean);
  const Val filled = c.typed(
      c.emit("Where", {missing, c.constant_number(std::numeric_limits<double>::infinity(), dtype), s.x}), dtype);
  const Val present = c.typed(c.emit("Not", {missing}), DType::boolean, c.dims(s.x));
  const Val count = reduce(c, "ReduceSum", c.cast(present, dtype), {-1}, true);
  const Val one = c.constant_number(1, dtype), zero = c.constant_number(0, dtype);
  const Val last = c.emit("Max", {c.emit("Sub", {count, one}), zero});
  const Val found =
      at_ranks(c, s, ascending(c, filled, s.size), c.emit("Mul", {requested_quantiles(c, dtype), last}), true);
  const Val none = c.emit("Equal", {count, zero});
  yield_quantiles(c, c.emit("Where", {none, not_a_number(c, dtype), found}), s, several(c));
}

const OpEntry kQuantile[] = {
    {"aten::nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> "
     "Tensor",
     nanquantile},
    {"aten::nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str "
     "interpolation='linear') -> Tensor",
     nanquantile},
    {"aten::quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> "
     "Tensor",
     quantile},
    {"aten::quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') "
     "-> Tensor",
     quantile},
};

}  // namespace

OpFamily quantile_ops() { return kQuantile; }

}  // namespace whence::convert
