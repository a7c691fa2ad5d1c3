// repeat_interleave: each element several times in a row. It is a Gather. Its indices are constants if sizes and counts
// are known; otherwise they are computed from the running sum of the counts.
#include <optional>
#include <vector>

#include "annotator/convert/broadcast.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"
#include "schema/element_count.h"

namespace whence::convert {
namespace {

struct Interleaved {
  Val input;
  std::int64_t axis;
};

// Without `dim` the elements are taken in row-major order.
Interleaved input(Ctx& c) {
  const Val x = c.tensor("self");
  if (c.has("dim")) return {x, c.axis(c.integer("dim"), c.rank(x))};
  if (c.rank(x) == 1) return {x, 0};
  std::optional<std::vector<Dim>> flat;
  if (c.all_static(x)) {
    Ints sizes;
    for (const Dim& dim : c.dims(x)) sizes.push_back(dim.size);
    const std::int64_t count = whence::element_count(sizes);
    flat = std::vector<Dim>{Dim{count, false, none_id}};
  }
  return {c.typed(c.reshape(x, {std::int64_t{-1}}), c.dtype(x), flat), 0};
}

Val gather(Ctx& c, const Interleaved& x, Val indices) {
  return c.emit("Gather", {x.input, indices}, {{"axis", x.axis}});
}

// Contains the index i repeats[i] times.
Ints constant_indices(Ctx& c, const Ints& repeats) {
  std::int64_t count = 0;
  for (const std::int64_t each : repeats) {
    c.expect(each >= 0, "repeats must not be negative");
    count = saturated_sum(count, each);
  }
  Ints indices;
  indices.reserve(c.table_size({count}));
  for (std::size_t i = 0; i < repeats.size(); ++i) indices.insert(indices.end(), repeats[i], i);
  return indices;
}

// Computes the indices from counts [n] at run time: output j takes the element i for which i running sums are <= j.
Val computed_indices(Ctx& c, Val repeats) {
  const Val counts = c.cast(repeats, DType::int64);
  const Val ends = c.emit("CumSum", {counts, c.constant_int(0)});
  Val total;
  if (c.has("output_size")) {
    total = c.to_scalar_value(c.size("output_size"));
  } else {
    total = reduce(c, "ReduceSum", counts, {0}, false);
  }
  const Val position = c.emit("Range", {c.constant_int(0), total, c.constant_int(1)});
  const Val passed = c.typed(c.emit("LessOrEqual", {c.unsqueeze(ends, {1}), position}), DType::boolean);
  return reduce(c, "ReduceSum", c.cast(passed, DType::int64), {0}, false);
}

Val indices_from(Ctx& c, Val repeats) {
  const auto known = c.graph().integers(repeats.id);
  return known ? c.constant_ints(constant_indices(c, *known)) : computed_indices(c, repeats);
}

bool has_count_per_element(Ctx& c, const Interleaved& x, Val repeats) {
  if (c.rank(repeats) == 0) return false;
  const Dim &elements = c.dims(x.input)[x.axis], &counts = c.dims(repeats)[0];
  if (elements.is_static() && counts.is_static()) return elements.size == counts.size;
  return counts.symbol != none_id && counts.symbol == elements.symbol;
}

// Repeats every element `repeats` times. For a dynamic or large size, the copies are made along a new axis, which is
// then merged.
void repeat_all(Ctx& c, const Interleaved& x, const Size& repeats) {
  const auto known = c.static_size(repeats);
  const auto size = c.static_dim(x.input, x.axis);
  c.expect(!known || *known >= 0, "repeats must not be negative");
  if (known && size && c.table_fits({*size}) && c.table_fits({*size, *known})) {
    return c.yield(gather(c, x, c.constant_ints(constant_indices(c, Ints(c.table_size({*size}), *known)))));
  }
  std::vector<Size> copies(static_cast<std::size_t>(c.rank(x.input)) + 1, std::int64_t{1});
  copies[static_cast<std::size_t>(x.axis) + 1] = repeats;
  const Val repeated = c.emit("Expand", {c.unsqueeze(x.input, {x.axis + 1}), c.to_vector(copies)});
  c.yield(c.reshape_to_output(repeated));
}

// repeats [n], or [1] with one count for all elements; a dynamic size may be either.
void by_tensor(Ctx& c) {
  const Interleaved x = input(c);
  Val repeats = c.tensor("repeats");
  if (has_count_per_element(c, x, repeats)) return c.yield(gather(c, x, indices_from(c, repeats)));
  const auto known = c.graph().integers(repeats.id);
  if (known && known->size() == 1) return repeat_all(c, x, known->front());
  if (c.rank(repeats) == 0 || c.static_dim(repeats, 0) == std::int64_t{1}) {
    return repeat_all(c, x, c.cast(c.rank(repeats) == 0 ? repeats : c.squeeze(repeats, {0}), DType::int64));
  }
  const Val elements = c.to_vector({size_of_axis(c, x.input, x.axis)});
  repeats = c.typed(c.emit("Expand", {repeats, elements}), c.dtype(repeats), std::vector<Dim>{c.dims(x.input)[x.axis]});
  c.yield(gather(c, x, computed_indices(c, repeats)));
}

void by_number(Ctx& c) { repeat_all(c, input(c), c.size("repeats")); }

// Yields the indices themselves.
void indices_only(Ctx& c) { c.yield(indices_from(c, c.tensor("repeats"))); }

const OpEntry kRepeat[] = {
    {"aten::repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor", indices_only},
    {"aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> "
     "Tensor",
     by_tensor},
    {"aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> "
     "Tensor",
     by_number},
};

}  // namespace

OpFamily repeat_ops() { return kRepeat; }

}  // namespace whence::convert
