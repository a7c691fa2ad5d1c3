// Orders of axes, as Transpose takes them, and numbers as vectors.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

Ints axis_order(int rank);  // 0, 1, ... rank - 1

// The identity permutation with two axes exchanged, which is its own inverse. Axes count from 0. Throws MissingAxis for
// others than `rank` has.
Ints exchanged_axes(int rank, std::int64_t a, std::int64_t b);

// A number as a vector of one, as some operators take it; any other tensor as it is.
inline Val at_least_vector(Ctx& c, Val x) { return c.rank(x) == 0 ? c.unsqueeze(x, {0}) : x; }

}  // namespace whence::convert
