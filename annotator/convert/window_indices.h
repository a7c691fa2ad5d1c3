// The indices that sliding windows read along an axis, for operators that gather them: unfold, im2col.
#pragma once

#include <optional>

#include "annotator/convert/ctx.h"

namespace whence::convert {

// Number of elements in a window, distance between elements, and step from one window to the next; all above 0.
struct Windows {
  std::int64_t elements, dilation, step;

  std::int64_t reach() const { return dilation * (elements - 1); }  // from its first element to its last
  std::int64_t count(std::int64_t size) const { return (size - reach() - 1) / step + 1; }
};

// Returns the indices as int64 [elements, windows] or [windows, elements]. `size` is that of the axis of `x` if it is
// known; otherwise the graph computes the number of windows. The graph also computes the indices if the table would be
// long. Refuses windows of more than 16,777,216 elements.
enum class IndexOrder : std::uint8_t { elements_first, windows_first };
Val window_indices(Ctx& c, Val x, std::int64_t axis, std::optional<std::int64_t> size, const Windows& windows,
                   IndexOrder order);

}  // namespace whence::convert
