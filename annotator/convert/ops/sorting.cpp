// Sorting and selecting by rank: sort, topk, kthvalue, median, unique, searchsorted. Ranks come from TopK: among equal
// elements it puts the one with the lower index first, so its order is stable.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annotator/convert/axes.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"

namespace whence::convert {
namespace {

struct Ranked {
  Val values, indices;
};

// The first `count` elements along `axis` in order. Runtimes rank only numbers of 32 bits or more.
Ranked first_ranked(Ctx& c, Val x, const Size& count, std::int64_t axis, bool largest, bool sorted) {
  const DType dtype = c.dtype(x);
  const bool narrow = dtype == DType::boolean || (is_integral(dtype) && size_of(dtype) < 4);
  const DType wide = narrow ? DType::int32 : dtype;
  Attributes attributes{{"axis", axis}};
  if (!largest) attributes.push_back({"largest", 0});
  if (!sorted) attributes.push_back({"sorted", 0});
  const auto results = c.emit_many("TopK", {c.cast(x, wide), c.to_vector({count})}, std::move(attributes), 2);
  return {c.cast(c.typed(results[0], wide), dtype), results[1]};
}

Size extent(Ctx& c, Val x, std::int64_t axis) {
  if (const auto size = c.static_dim(x, axis)) return *size;
  return c.dim_of(x, axis);
}

Ranked sorted_along(Ctx& c, std::int64_t dim, bool descending) {
  const Val x = c.tensor("self");
  if (c.rank(x) == 0) return {x, c.constant_int(0)};
  const std::int64_t axis = c.axis(dim, c.rank(x));
  return first_ranked(c, x, extent(c, x, axis), axis, descending, true);
}

void sort(Ctx& c) {
  const Ranked ranked = sorted_along(c, c.integer("dim"), c.flag("descending"));
  c.yield({ranked.values, ranked.indices});
}

void argsort(Ctx& c) { c.yield(sorted_along(c, c.integer("dim"), c.flag("descending")).indices); }

void msort(Ctx& c) { c.yield(sorted_along(c, 0, false).values); }

void topk(Ctx& c) {
  const Val x = c.tensor("self");
  if (c.rank(x) == 0) return c.yield({x, c.constant_int(0)});
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  const Ranked ranked = first_ranked(c, x, c.size("k"), axis, c.flag("largest"), c.flag("sorted"));
  c.yield({ranked.values, ranked.indices});
}

// The element of rank `k`, counted from 1 for the smallest, and its index.
Ranked at_rank(Ctx& c, Val x, const Size& k, std::int64_t axis, bool keep) {
  const Ranked ranked = first_ranked(c, x, k, axis, false, true);
  const auto known = c.static_size(k);
  const std::int64_t last = known ? *known - 1 : -1;
  // A scalar index drops the axis, a vector of one element keeps it.
  const Val position = keep ? c.constant_ints({last}) : c.constant_int(last);
  return {c.emit("Gather", {ranked.values, position}, {{"axis", axis}}),
          c.emit("Gather", {ranked.indices, position}, {{"axis", axis}})};
}

// Returns the rank of the lower of the two middle elements: (n + 1) / 2.
Size middle(Ctx& c, const Size& count) {
  if (const auto known = c.static_size(count)) return (*known + 1) / 2;
  return c.emit("Div", {c.emit("Add", {std::get<Val>(count), c.constant_int(1)}), c.constant_int(2)});
}

void kthvalue(Ctx& c) {
  const Val x = c.tensor("self");
  if (c.rank(x) == 0) return c.yield({x, c.constant_int(0)});
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  const Ranked ranked = at_rank(c, x, c.size("k"), axis, c.flag("keepdim"));
  c.yield({ranked.values, ranked.indices});
}

// The lower of the two middle elements of an even number of elements; the first NaN if there is one.
Ranked median_of_row(Ctx& c, Val x, const Size& count, std::int64_t axis, bool keep) {
  const DType dtype = c.dtype(x);
  const Ranked ranked = at_rank(c, x, middle(c, count), axis, keep);
  if (!is_floating(dtype)) return ranked;
  const Val is_nan = c.cast(c.typed(c.emit("IsNaN", {x}), DType::boolean, c.dims(x)), DType::int32);
  const Val spoiled = c.cast(c.typed(reduce(c, "ReduceMax", is_nan, {axis}, keep), DType::int32), DType::boolean);
  const Val nan = c.constant_number(std::numeric_limits<double>::quiet_NaN(), dtype);
  const Val first = c.emit("ArgMax", {is_nan}, {{"axis", axis}, {"keepdims", keep ? 1 : 0}});
  return {c.emit("Where", {spoiled, nan, ranked.values}), c.emit("Where", {spoiled, first, ranked.indices})};
}

void median_along(Ctx& c) {
  const Val x = c.tensor("self");
  if (c.rank(x) == 0) return c.yield({x, c.constant_int(0)});
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  const Ranked found = median_of_row(c, x, extent(c, x, axis), axis, c.flag("keepdim"));
  c.yield({found.values, found.indices});
}

void median(Ctx& c) {
  const Val x = c.tensor("self");
  std::int64_t count = 1;
  for (int axis = 0; axis < c.rank(x); ++axis) count *= c.static_dim(x, axis).value_or(0);
  const Size all = c.all_static(x) ? Size{count} : Size{c.emit("Size", {x})};
  const Val flat = c.typed(c.reshape(x, {std::int64_t{-1}}), c.dtype(x));
  c.yield(median_of_row(c, flat, all, 0, false).values);
}

// ---- nanmedian and mode ---------------------------------------------------------------------------------------------

Val at(Ctx& c, Val values, Val positions, std::int64_t axis) {
  return c.typed(c.emit("GatherElements", {values, positions}, {{"axis", axis}}), c.dtype(values));
}

// Replaces NaN with infinity, which sorts last; the median is the lower middle one of the `numbers` other elements.
Ranked median_of_numbers(Ctx& c, Val x, std::int64_t axis) {
  const DType dtype = c.dtype(x);
  const Val is_nan = c.typed(c.emit("IsNaN", {x}), DType::boolean);
  const Val infinity = c.constant_number(std::numeric_limits<double>::infinity(), dtype);
  const Val rest = c.typed(c.emit("Where", {is_nan, infinity, x}), dtype, c.dims(x));
  const Ranked ranked = first_ranked(c, rest, extent(c, x, axis), axis, false, true);
  const Val missing = reduce(c, "ReduceSum", c.cast(is_nan, DType::int64), {axis}, true);
  const Val numbers = c.emit("Sub", {c.dim_of(x, axis), missing});
  const Val below = c.emit("Div", {c.emit("Sub", {numbers, c.constant_int(1)}), c.constant_int(2)});
  const Val position = c.emit("Max", {below, c.constant_int(0)});
  const Val none = c.emit("LessOrEqual", {numbers, c.constant_int(0)});
  const Val nan = c.constant_number(std::numeric_limits<double>::quiet_NaN(), dtype);
  return {c.emit("Where", {none, nan, at(c, ranked.values, position, axis)}), at(c, ranked.indices, position, axis)};
}

void nanmedian_along(Ctx& c) {
  const Val x = c.tensor("self");
  if (!is_floating(c.dtype(x))) return median_along(c);
  if (c.rank(x) == 0) return c.yield({x, c.constant_int(0)});
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x));
  const Ranked found = median_of_numbers(c, x, axis);
  if (c.flag("keepdim")) return c.yield({found.values, found.indices});
  c.yield({c.squeeze(found.values, {axis}), c.squeeze(found.indices, {axis})});
}

void nanmedian(Ctx& c) {
  const Val x = c.tensor("self");
  if (!is_floating(c.dtype(x))) return median(c);
  const auto dims = c.output_dims();
  const Val flat = c.rank(x) == 1 ? x : c.reshape(x, {std::int64_t{-1}});
  c.yield(c.emit("Reshape", {median_of_numbers(c, flat, 0).values, c.constant_ints(Ints(dims ? dims->size() : 0, 1))}));
}

// The most frequent element along an axis, or the least of several, and its last index. Compares all pairs of elements.
void mode(Ctx& c) {
  const Val x = c.tensor("self");
  if (c.rank(x) == 0) return c.yield({x, c.constant_int(0)});
  const DType dtype = c.dtype(x);
  const std::int64_t axis = c.axis(c.integer("dim"), c.rank(x)), last = c.rank(x) - 1;
  const Ints order = exchanged_axes(c.rank(x), axis, last);
  const Val rows = c.transpose(x, order);
  const Ranked ranked = first_ranked(c, rows, extent(c, x, axis), last, false, true);
  const Val same = c.typed(
      c.emit("Equal", {c.unsqueeze(ranked.values, {last + 1}), c.unsqueeze(ranked.values, {last})}), DType::boolean);
  const Val counts = reduce(c, "ReduceSum", c.cast(same, DType::int32), {last + 1}, false);
  const Val best = c.emit("ArgMax", {counts}, {{"axis", last}});
  const Val value = at(c, c.typed(ranked.values, dtype), best, last);
  const Val hits = c.cast(c.typed(c.emit("Equal", {rows, value}), DType::boolean), DType::int32);
  const Val position = c.emit("ArgMax", {hits}, {{"axis", last}, {"select_last_index", 1}});
  if (!c.flag("keepdim")) return c.yield({c.squeeze(value, {last}), c.squeeze(position, {last})});
  c.yield({c.transpose(value, order), c.transpose(position, order)});
}

// Distinct elements (or slices along an axis), the index among them of each input element, and the count of each.
// PyTorch sorts them even without `sorted`.
std::vector<Val> distinct(Ctx& c, std::optional<std::int64_t> axis) {
  const Val x = c.tensor("self");
  Attributes attributes;
  if (axis) attributes.push_back({"axis", *axis});
  // Runtimes compare integers in 64 bits; the results are cast back.
  const DType dtype = c.dtype(x);
  const Val wide = is_floating(dtype) ? x : c.cast(x, DType::int64);
  const auto results = c.emit_many("Unique", {wide}, std::move(attributes), 4);
  const Val inverse = axis || c.rank(x) == 1 ? results[2] : c.reshape_to_output(results[2], 1);
  return {c.typed(results[0], c.dtype(wide)), inverse, results[3]};
}

void unique(Ctx& c) {
  std::vector<Val> results = distinct(c, std::nullopt);
  results.resize(c.schema().returns.size());
  c.yield(results);
}

void unique_dim(Ctx& c) { c.yield(distinct(c, c.axis(c.integer("dim"), c.rank(c.tensor("self"))))); }

// The length of each run: from its start to the next start, or to the end. `starts` is 1 where a run starts.
Val run_lengths(Ctx& c, Val starts, const Size& count) {
  const Val from = c.emit("Reshape", {c.emit("NonZero", {starts}), c.constant_ints({-1})});
  const Val next = c.emit("Slice", {from, c.constant_ints({1}), c.constant_ints({INT64_MAX}), c.constant_ints({0})});
  return c.emit("Sub", {c.emit("Concat", {next, c.to_vector({count})}, {{"axis", 0}}), from});
}

// Yields one of each run of equal elements (or slices along an axis), the run of each element, and each run's length.
void unique_consecutive(Ctx& c) {
  const Val self = c.tensor("self");
  const bool flattens = !c.has("dim");
  const Val x = flattens && c.rank(self) != 1
                    ? c.typed(c.reshape(self, {std::int64_t{-1}}), c.dtype(self), std::vector<Dim>{{-1, true}})
                    : self;
  const std::int64_t axis = flattens ? 0 : c.axis(c.integer("dim"), c.rank(x));
  const auto slice = [&](std::int64_t from, std::int64_t to) {
    return c.emit("Slice", {x, c.constant_ints({from}), c.constant_ints({to}), c.constant_ints({axis})});
  };
  const Val differs = c.typed(c.emit("Not", {c.emit("Equal", {slice(1, INT64_MAX), slice(0, -1)})}), DType::boolean);
  Ints others;
  for (std::int64_t i = 0; i < c.rank(x); ++i) {
    if (i != axis) others.push_back(i);
  }
  Val starts = c.cast(differs, DType::int64);
  if (!others.empty()) starts = reduce(c, "ReduceMax", starts, others, false);
  const Val first = c.emit("Slice", {c.constant_ints({1}), c.constant_ints({0}), c.to_vector({c.dim_of(x, axis)})});
  starts = c.typed(c.emit("Concat", {first, starts}, {{"axis", 0}}), DType::int64);
  const Val runs = c.emit("Sub", {c.emit("CumSum", {starts, c.constant_int(0)}), c.constant_int(1)});
  const Val values = c.emit("Compress", {x, c.cast(starts, DType::boolean)}, {{"axis", axis}});
  const Val counts = c.result_used(2) ? run_lengths(c, starts, c.dim_of(x, axis)) : absent;
  const Val positions = flattens && c.rank(self) != 1 && c.result_used(1) ? c.reshape_to_output(runs, 1) : runs;
  c.yield({values, positions, counts});
}

// Counts the sorted numbers [*, m] that are below each value (`right`: or equal to it), which is its insertion index.
// Like PyTorch's binary search, it counts the numbers that are not above, so that NaN goes last.
Val insertion_indices(Ctx& c, Val sorted, Val values, bool right) {
  const Val each = c.unsqueeze(values, {c.rank(values)});
  const Val row = c.rank(sorted) == 1 ? sorted : c.unsqueeze(sorted, {c.rank(sorted) - 1});
  const Val ahead = c.emit(right ? "Greater" : "GreaterOrEqual", {row, each});
  const Val passed = c.typed(c.emit("Not", {ahead}), DType::boolean);
  return reduce(c, "ReduceSum", c.cast(passed, c.output_dtype()), {-1}, false);
}

void bucketize(Ctx& c) {
  const auto [values, boundaries] = c.promoted(c.tensor("self"), c.tensor("boundaries"));
  c.yield(insertion_indices(c, boundaries, values, c.flag("right")));
}

void searchsorted(Ctx& c) {
  Val sequence = c.tensor("sorted_sequence");
  if (c.has("sorter")) {
    const Val ordered = c.emit("GatherElements", {sequence, c.tensor("sorter")}, {{"axis", -1}});
    sequence = c.typed(ordered, c.dtype(sequence), c.dims(sequence));
  }
  const auto [sorted, values] = c.promoted(sequence, c.tensor("self"));
  const bool right = c.has("side") ? c.text("side") == "right" : c.flag("right");
  c.yield(insertion_indices(c, sorted, values, right));
}

const OpEntry kSorting[] = {
    {"aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", sort},
    {"aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, "
     "Tensor indices)",
     sort},
    {"aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor", argsort},
    {"aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor", argsort},
    {"aten::msort(Tensor self) -> Tensor", msort},
    {"aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, "
     "Tensor indices)",
     topk},
    {"aten::kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
     kthvalue},
    {"aten::nanmedian(Tensor self) -> Tensor", nanmedian},
    {"aten::nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
     nanmedian_along},
    {"aten::mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", mode},
    {"aten::median(Tensor self) -> Tensor", median},
    {"aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", median_along},
    {"aten::_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)", unique},
    {"aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, "
     "Tensor, Tensor)",
     unique},
    {"aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) "
     "-> (Tensor, Tensor, Tensor)",
     unique_dim},
    {"aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
     bucketize},
    {"aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, "
     "str? side=None, Tensor? sorter=None) -> Tensor",
     searchsorted},
    {"aten::searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, "
     "str? side=None, Tensor? sorter=None) -> Tensor",
     searchsorted},
    {"aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> "
     "(Tensor, Tensor, Tensor)",
     unique_consecutive},
};

}  // namespace

OpFamily sorting_ops() { return kSorting; }

}  // namespace whence::convert
