// The elements of an axis that PyTorch reads where it resizes to the nearest ones, for axes of which a Resize would
// read others: the two round differently.
#pragma once

#include <optional>

#include "annotator/convert/ctx.h"

namespace whence::convert {

struct NearestAxis {
  std::optional<std::int64_t> size = {}, result_size = {};  // absent: not known before the file runs
  std::optional<Size> asked_size = {};  // the result's, as the file knows it; needed without a factor
  std::optional<double> factor = {};    // by which PyTorch maps coordinates; else the sizes give it
  float written = 1;                    // the factor as a Resize would hold it, where there is one
  bool exact = false;                   // by the centres of pixels instead of their corners
  bool copied = false;                  // a Resize may copy: no size is known to change
  bool image = false;    // two spatial axes: there PyTorch copies an axis that stays, and halves one that doubles
  bool doubles = false;  // to the size that was halved before, as in a pyramid of features: a Resize reads the same
};

// Returns the places along `axis` of `x`, int64 [result_size]; absent where a Resize reads the same, and for a table
// beyond 65,536 places.
Val places_to_gather(Ctx& c, Val x, std::int64_t axis, const NearestAxis& nearest);

}  // namespace whence::convert
