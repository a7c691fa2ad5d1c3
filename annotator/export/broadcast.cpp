// Broadcasting follows the recorded sizes: two axes that were equally long, and longer than 1, when the example inputs
// ran have to be equally long always, or PyTorch could not have broadcast them.
#include "annotator/export/broadcast.h"

#include <algorithm>

namespace whence {
namespace {

// Recorded size of the axis that is `from_end` axes from the end, 1 where the value has none.
std::int64_t recorded(Ctx& c, Val value, int from_end) {
  const int axis = c.rank(value) - from_end;
  return axis < 0 ? 1 : c.dims(value)[axis].size;
}

// Whether broadcasting `other` against `value` leaves `value` as it is.
bool covers(Ctx& c, Val value, Val other) {
  if (c.rank(other) > c.rank(value)) return false;
  for (int from_end = 1; from_end <= c.rank(other); ++from_end) {
    const bool is_one = c.static_dim(other, -from_end) == 1;
    const std::int64_t size = recorded(c, other, from_end);
    if (!is_one && (size < 0 || size != recorded(c, value, from_end))) return false;
  }
  return true;
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
  const bool run_time = others.size() == 1 && !c.all_static(others[0]);
  return c.emit("Expand", {value, run_time ? c.emit("Shape", {others[0]}) : c.to_vector(broadcast_shape(c, others))});
}

}  // namespace whence
