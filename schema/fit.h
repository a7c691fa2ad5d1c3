// Sizes of which nothing but their numbers in a few runs is known: what a live C++ module computes beside its tensors,
// and numbers in the steps of an operator that ATen defines by others.
#pragma once

#include <optional>
#include <vector>

#include "schema/size.h"

namespace whence {

// A size, and what it was in each run.
struct SeenSize {
  Size size;
  std::vector<std::int64_t> numbers;
};

// The simplest size of these that has `numbers`, one a run: k * n, k * n + l, k * n * m, (n + k) // d + l with d up to
// `most_divisor`. nullopt if there is none, and if several quotients have them: the runs do not show how the division
// is rounded. Expects as many numbers for each.
std::optional<Size> fitted(const std::vector<std::int64_t>& numbers, const std::vector<SeenSize>& sizes,
                           std::int64_t most_divisor);

}  // namespace whence
