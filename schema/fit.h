// Fits a size to its values in a few runs, if nothing else is known about it: for numbers that a live C++ module
// computes outside its tensors, and for numbers inside an operator that ATen decomposes.
#pragma once

#include <optional>
#include <vector>

#include "schema/size.h"

namespace whence {

// A size and its value in each run.
struct SeenSize {
  Size size;
  std::vector<std::int64_t> numbers;
};

// Returns the simplest expression over `sizes` with the values `numbers`, one for each run: k * n, k * n + l, k * n *
// m, or (n + k) // d + l with d up to `max_divisor`. nullopt if none fits, or if several quotients fit, because the
// runs do not show how the division rounds. All lists of numbers must have the same length.
std::optional<Size> fit_size(const std::vector<std::int64_t>& numbers, const std::vector<SeenSize>& sizes,
                             std::int64_t max_divisor);

}  // namespace whence
