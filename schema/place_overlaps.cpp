// Decides for all sizes whether tensors have elements in common.
#include <numeric>
#include <utility>

#include "schema/place.h"

namespace whence {

namespace {

Size span_without(const MemoryPlace& place, std::optional<std::size_t> without) {
  Size sum = 0;
  for (std::size_t i = 0; i < place.sizes.size(); ++i) {
    if (i != without) sum = sum + (place.sizes[i] - 1) * place.strides[i];
  }
  return sum;
}

void drop_axis(MemoryPlace& place, std::size_t axis) {
  place.sizes.erase(place.sizes.begin() + static_cast<std::ptrdiff_t>(axis));
  place.strides.erase(place.strides.begin() + static_cast<std::ptrdiff_t>(axis));
}

// Drops every axis whose stride exceeds the span of the remaining axes (`beyond(axis)`), so that elements with
// different indices along it are certain to differ.
void drop_axes(MemoryPlace& one, MemoryPlace* other, const auto& beyond) {
  for (std::size_t axis = 0; axis < one.sizes.size();) {
    if (!beyond(axis)) {
      ++axis;
      continue;
    }
    drop_axis(one, axis);
    if (other != nullptr) drop_axis(*other, axis);
    axis = 0;
  }
}

}  // namespace

bool has_distinct_elements(const Program& program, const MemoryPlace& place) {
  MemoryPlace remaining = place;
  drop_axes(remaining, nullptr, [&](std::size_t axis) {
    return remaining.sizes[axis] == Size(1) ||
           is_at_least(program, remaining.strides[axis] - span_without(remaining, axis), 1);
  });
  return remaining.sizes.empty();
}

bool are_disjoint(const Program& program, const MemoryPlace& one, const MemoryPlace& other) {
  MemoryPlace a = one, b = other;
  Size apart = b.offset - a.offset;
  if (!is_at_least(program, apart, 0)) {
    std::swap(a, b);
    apart = b.offset - a.offset;
  }
  if (!is_at_least(program, apart, 0)) return false;
  if (a.sizes.size() == b.sizes.size()) {
    drop_axes(a, &b, [&](std::size_t axis) {
      const Size& stride = a.strides[axis];
      return certainly_equal(a.sizes[axis], b.sizes[axis]) && certainly_equal(stride, b.strides[axis]) &&
             is_at_least(program, stride + apart - span_without(a, axis), 1) &&
             is_at_least(program, stride - apart - span_without(b, axis), 1);
    });
  }
  if (is_at_least(program, apart - span_without(a, std::nullopt), 1)) return true;
  std::int64_t step = 0;  // a common divisor of all strides
  for (const MemoryPlace* each : {&a, &b}) {
    for (const Size& stride : each->strides) step = std::gcd(step, stride.integer().value_or(1));
  }
  return step > 1 && apart.is_integer() && apart.number() % step != 0;
}

std::optional<MemoryPlace> with_separate_axes(const Program& program, ValueId tensor) {
  auto sizes = sizes_of(program, tensor);
  if (!sizes) return std::nullopt;
  MemoryPlace place{tensor, 0, std::move(*sizes), {}};
  for (std::size_t axis = 0; axis < place.sizes.size(); ++axis) {
    place.strides.push_back(local_symbol({LocalSize::no_value, static_cast<int>(axis)}));
  }
  return place;
}

bool have_separate_ranges(const Program& program, const MemoryPlace& one, const MemoryPlace& other) {
  const auto along = [](MemoryPlace place, int axis) {
    const auto only = [&](Size& size) {
      size = size.with([&](SymbolId symbol) {
        const auto local = local_size(symbol);
        return local && local->value == LocalSize::no_value ? Size(local->axis == axis ? 1 : 0) : Size::symbol(symbol);
      });
    };
    only(place.offset);
    for (Size& stride : place.strides) only(stride);
    return place;
  };
  for (int axis = 0; axis < LocalSize::axes; ++axis) {
    if (are_disjoint(program, along(one, axis), along(other, axis))) return true;
  }
  return false;
}

}  // namespace whence
