// Vector norms, shared by several families.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// (sum over `axes` of |x|^order) ^ (1 / order), and its limits for order 0 and infinity. Empty `axes` means all axes; a
// scalar counts as a vector of one element. x has the dtype of the result.
Val vector_norm(Ctx& c, Val x, double order, const Ints& axes, bool keep);

}  // namespace whence::convert
