// Norms of vectors, which several families need.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// (sum over `axes` of |x|^order) ^ (1 / order), and its limits for order 0 and infinity. Empty `axes` means all of
// them; a scalar is a vector of one. x is of the result's dtype.
Val vector_norm(Ctx& c, Val x, double order, const Ints& axes, bool keep);

}  // namespace whence::convert
