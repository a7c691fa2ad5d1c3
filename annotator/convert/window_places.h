// The places that sliding windows visit along an axis, for operators that gather them: unfold, im2col.
#pragma once

#include <optional>

#include "annotator/convert/ctx.h"

namespace whence::convert {

// The number of elements, their distance, and that from one window to the next, which are above 0.
struct Windows {
  std::int64_t elements, dilation, step;

  std::int64_t reach() const { return dilation * (elements - 1); }  // from its first element to its last
  std::int64_t count(std::int64_t size) const { return (size - reach() - 1) / step + 1; }
};

// Returns the places as int64 [elements, windows], or as [windows, elements]. `size`: of the axis of `x`, where it is
// known; else the file computes how many windows there are, as it does their places where a table would be long.
// Refuses windows of more than 16,777,216 elements.
enum class PlacesOrder : std::uint8_t { elements_first, windows_first };
Val window_places(Ctx& c, Val x, std::int64_t axis, std::optional<std::int64_t> size, const Windows& windows,
                  PlacesOrder order);

}  // namespace whence::convert
