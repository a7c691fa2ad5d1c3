// Orders of axes, as Transpose takes them.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

Ints axis_order(int rank);  // 0, 1, ... rank - 1

// The identity permutation with two axes exchanged, which is its own inverse. Axes count from 0.
Ints exchanged_axes(int rank, std::int64_t a, std::int64_t b);

}  // namespace whence::convert
