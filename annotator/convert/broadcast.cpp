// Broadcasting relies on the recorded sizes: if two axes had the same size above 1 with the example inputs, they always
// have equal sizes, or PyTorch could not have broadcast them.
#include "annotator/convert/broadcast.h"

#include <algorithm>

#include "annotator/convert/convert.h"
#include "annotator/program/program_facts.h"

namespace whence::convert {

namespace {

// Returns true if axis `a` is as long as `b` whenever PyTorch can broadcast them. A size of 1 in the example inputs
// proves nothing: it may be a batch of one against a true 1. Neither does a size that data may make 1, or one that is
// derived from other sizes: x[:2] has size 1 if x has.
bool equally_long(Ctx& c, const Dim& a, const Dim& b) {
  if (a.symbol != none_id && a.symbol == b.symbol) return true;
  const auto& symbols = c.session().program().symbols;
  const whence::Size length = length_of(symbols, a), other = length_of(symbols, b);
  if (certainly_equal(length, other)) return true;
  const auto is_derived = [](const whence::Size& size) { return !size.is_integer() && !size.single_symbol(); };
  if (!length.is_known() || !other.is_known()) return false;
  if ((is_derived(length) || is_derived(other)) && may_be(c.session().program(), length, 1)) return false;
  if (b.is_static() && program::may_become_one(c.session().program(), a)) return false;
  return a.size > 1 && a.size == b.size;
}

// Returns true if broadcasting `other` against `value` leaves `value` unchanged.
bool covers(Ctx& c, Val value, Val other) {
  if (value == other) return true;
  const int added = c.rank(value) - c.rank(other);
  if (added < 0) return false;
  for (int axis = 0; axis < c.rank(other); ++axis) {
    if (c.static_dim(other, axis) != 1 && !equally_long(c, c.dims(value)[axis + added], c.dims(other)[axis]))
      return false;
  }
  return true;
}

// Returns true if along some axis two sizes are unknown at export and either may be 1.
bool ambiguous(Ctx& c, const std::vector<Val>& values) {
  for (const Val one : values) {
    for (const Val other : values) {
      if (one == other) continue;
      for (int from_end = 1; from_end <= std::min(c.rank(one), c.rank(other)); ++from_end) {
        if (c.static_dim(one, -from_end) || c.static_dim(other, -from_end)) continue;
        const auto dim_of = [&](Val value) {
          return c.dims(value)[static_cast<std::size_t>(c.rank(value) - from_end)];
        };
        if (!equally_long(c, dim_of(one), dim_of(other))) return true;
      }
    }
  }
  return false;
}

}  // namespace

Size size_of_axis(Ctx& c, Val value, std::int64_t axis) {
  const auto size = c.static_dim(value, axis);
  return size ? Size{*size} : Size{c.dim_of(value, axis)};
}

std::vector<Size> shape_of(Ctx& c, Val value) {
  std::vector<Size> sizes;
  for (int axis = 0; axis < c.rank(value); ++axis) sizes.push_back(size_of_axis(c, value, axis));
  return sizes;
}

std::vector<Size> broadcast_shape(Ctx& c, const std::vector<Val>& values) {
  int rank = 0;
  for (const Val value : values) rank = std::max(rank, c.rank(value));
  std::vector<Size> shape;
  for (int from_end = rank; from_end > 0; --from_end) {
    Size size = 1;
    for (const Val value : values) {
      if (c.rank(value) < from_end || c.static_dim(value, -from_end) == 1) continue;
      size = size_of_axis(c, value, c.rank(value) - from_end);
      if (std::holds_alternative<std::int64_t>(size)) break;
    }
    shape.push_back(size);
  }
  return shape;
}

Val broadcast(Ctx& c, Val value, const std::vector<Val>& others) {
  if (std::all_of(others.begin(), others.end(), [&](Val other) { return covers(c, value, other); })) return value;
  if (others.size() > 1 && ambiguous(c, others)) {
    for (const Val other : others) {
      if (other != value) value = c.emit("Expand", {value, c.emit("Shape", {other})});
    }
    return value;
  }
  const bool run_time = others.size() == 1 && !c.all_static(others[0]);
  return c.emit("Expand", {value, run_time ? c.emit("Shape", {others[0]}) : c.to_vector(broadcast_shape(c, others))});
}

}  // namespace whence::convert
