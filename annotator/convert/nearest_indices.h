// The indices that PyTorch reads along an axis when it resizes by nearest neighbour, for axes on which Resize would
// read others: the two round differently.
#pragma once

#include <optional>

#include "annotator/convert/ctx.h"

namespace whence::convert {

struct NearestAxis {
  std::optional<std::int64_t> size = {}, result_size = {};  // absent: unknown at export
  std::optional<Size> requested_size = {};                  // result_size in the graph; needed if there is no factor
  std::optional<double> factor = {};  // PyTorch's factor for coordinates; absent: computed from the sizes
  float resize_factor = 1;            // the factor as a Resize would store it
  bool exact = false;                 // nearest-exact: uses pixel centres instead of corners
  bool copied = false;                // a Resize may copy: no size is known to change
  bool image = false;  // two spatial axes: PyTorch copies an axis whose size stays, and halves the index if it doubles
  bool doubles = false;  // back to the size before halving, as in a feature pyramid: a Resize reads the same elements
};

// Returns the indices along `axis` of `x`, int64 [result_size]; absent if Resize reads the same elements, or if a table
// would need more than 65,536 indices.
Val indices_to_gather(Ctx& c, Val x, std::int64_t axis, const NearestAxis& nearest);

}  // namespace whence::convert
