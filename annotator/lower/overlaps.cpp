#include "annotator/lower/overlaps.h"

namespace whence::lower {

namespace {

std::optional<MemoryPlace> in_example(const Program& program, MemoryPlace place) {
  bool known = true;
  const auto settle = [&](Size& size) {
    const auto number = value_of(size, [&](SymbolId symbol) { return example_of(program, symbol); });
    known = known && number;
    size = number.value_or(0);
  };
  settle(place.offset);
  for (Size& size : place.sizes) settle(size);
  for (Size& stride : place.strides) settle(stride);
  return known ? std::optional(std::move(place)) : std::nullopt;
}

// Returns true if the source, broadcast to the target, has each element at the same position as the target.
bool is_broadcast(const MemoryPlace& source, const MemoryPlace& target) {
  if (source.sizes.size() > target.sizes.size() || source.offset != target.offset) return false;
  const std::size_t more = target.sizes.size() - source.sizes.size();
  for (std::size_t axis = 0; axis < target.sizes.size(); ++axis) {
    if (target.sizes[axis] == Size(1)) continue;
    const bool same = axis >= more && source.sizes[axis - more] == target.sizes[axis];
    if ((same ? source.strides[axis - more] : Size(0)) != target.strides[axis]) return false;
  }
  return true;
}

}  // namespace

bool reads_what_it_overwrites(const Program& program, const MemoryPlace& target, const MemoryPlace& source,
                              bool in_place) {
  const auto written = in_example(program, target), read = in_example(program, source);
  if (!written || !read || are_disjoint(program, *written, *read)) return false;
  return !in_place || !is_broadcast(*read, *written);
}

}  // namespace whence::lower
