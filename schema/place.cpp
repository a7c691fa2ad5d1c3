// Local symbols, row-major layouts and comparisons of layouts.
#include "schema/place.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace whence {

namespace {

using Sizes = std::vector<Size>;

constexpr std::int32_t first_local = 1 << 30;
constexpr int local_axes = LocalSize::axes + 1;  // the last one means a number (axis -1)
constexpr ValueId last_value{(std::numeric_limits<std::int32_t>::max() - first_local) / local_axes - 1};
static_assert(LocalSize::no_value == last_value);

}  // namespace

std::optional<LocalSize> local_size(SymbolId symbol) {
  const std::int32_t local = symbol.number() - first_local;
  if (local < 0) return std::nullopt;
  const int axis = local % local_axes;
  return LocalSize{ValueId(local / local_axes), axis == local_axes - 1 ? -1 : axis};
}

Size local_symbol(const LocalSize& local) {
  if (local.value > last_value || local.axis >= local_axes - 1) return Size::unknown();
  const int axis = local.axis < 0 ? local_axes - 1 : local.axis;
  return Size::symbol(SymbolId(first_local + local.value.number() * local_axes + axis));
}

std::optional<Sizes> sizes_of(const Program& program, ValueId tensor) {
  const auto& dims = program.values[tensor].type.dims;
  if (!dims) return std::nullopt;
  Sizes sizes;
  for (const Dim& dim : *dims) {
    const Size length = length_of(program.symbols, dim);
    sizes.push_back(length.is_known() ? length : local_symbol({tensor, static_cast<int>(sizes.size())}));
  }
  return sizes;
}

SizeRange range_in(const Program& program, SymbolId symbol) {
  const auto local = local_size(symbol);
  if (local) return local->axis < 0 ? SizeRange() : SizeRange{.min = 0};
  return {0, range_of(program.symbols[symbol]).max};
}

std::optional<std::int64_t> example_of(const Program& program, SymbolId symbol) {
  const auto local = local_size(symbol);
  if (!local) return program.symbols[symbol].example;
  if (local->axis < 0) return std::nullopt;
  const std::int64_t size = (*program.values[local->value].type.dims)[static_cast<std::size_t>(local->axis)].size;
  return size < 0 ? std::nullopt : std::optional(size);
}

bool is_at_least(const Program& program, const Size& size, std::int64_t least) {
  return size.is_known() && range_of(size, [&](SymbolId id) { return range_in(program, id); }).min >= least;
}

bool depends_on_axes_only(const Program& program, const Size& size) {
  return size.is_known() &&
         std::ranges::all_of(size.symbols(), [&](SymbolId id) { return program.symbols[id].kind == SymbolKind::axis; });
}

std::vector<std::size_t> axes_in_order(std::size_t rank) {
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::optional<MemoryPlace> row_major_place(const Program& program, ValueId tensor) {
  auto sizes = sizes_of(program, tensor);
  if (!sizes) return std::nullopt;
  Sizes strides = dense_strides(*sizes, axes_in_order(sizes->size()));
  return MemoryPlace{tensor, 0, std::move(*sizes), std::move(strides)};
}

Sizes dense_strides(const Sizes& sizes, const std::vector<std::size_t>& order) {
  Sizes strides(sizes.size(), 1);
  Size dense = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    strides[*axis] = dense;
    dense = dense * sizes[*axis];
  }
  return strides;
}

const StatedPlace* stated_place(const Program& program, ValueId tensor) {
  const auto found = std::ranges::lower_bound(program.places, tensor, {}, &StatedPlace::value);
  return found != program.places.end() && found->value == tensor ? &*found : nullptr;
}

std::optional<MemoryPlace> place_of_owner(const Program& program, ValueId tensor) {
  if (const StatedPlace* stated = stated_place(program, tensor)) return stated->place;
  return program.placed ? row_major_place(program, tensor) : std::nullopt;
}

bool same_strides(const Sizes& sizes, const Sizes& one, const Sizes& other) {
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] != Size(1) && !certainly_equal(one[axis], other[axis])) return false;
  }
  return true;
}

bool is_row_major(const MemoryPlace& place) {
  return same_strides(place.sizes, place.strides, dense_strides(place.sizes, axes_in_order(place.sizes.size())));
}

bool has_same_layout(const MemoryPlace& one, const MemoryPlace& other) {
  return one.sizes.size() == other.sizes.size() && certainly_equal(one.offset, other.offset) &&
         same_strides(one.sizes, one.strides, other.strides);
}

// Starts with an axis of stride 1. The stride of each next axis is the product of the lengths so far.
std::optional<std::vector<std::size_t>> order_in_memory(const MemoryPlace& place) {
  std::vector<std::size_t> remaining = axes_in_order(place.sizes.size()), order;
  Size dense = 1;
  while (!remaining.empty()) {
    const auto next = std::find_if(remaining.rbegin(), remaining.rend(), [&](std::size_t axis) {
      return place.sizes[axis] == Size(1) || certainly_equal(place.strides[axis], dense);
    });
    if (next == remaining.rend()) return std::nullopt;
    dense = dense * place.sizes[*next];
    order.insert(order.begin(), *next);
    remaining.erase(std::next(next).base());
  }
  return order;
}

}  // namespace whence
