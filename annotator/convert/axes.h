// Axis orders for Transpose, and scalars as vectors.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

Ints axis_order(int rank);  // 0, 1, ... rank - 1

// Returns the identity permutation with two axes exchanged, which is its own inverse. Axes count from 0. Throws
// MissingAxis if `rank` is too small for them.
Ints exchanged_axes(int rank, std::int64_t a, std::int64_t b);

// Returns a scalar as a vector of one element, which some operators require; any other tensor unchanged.
inline Val at_least_vector(Ctx& c, Val x) { return c.rank(x) == 0 ? c.unsqueeze(x, {0}) : x; }

}  // namespace whence::convert
