// Proves that integers in the graph are not negative. Sizes never are, and for such numbers rounding towards zero and
// rounding down give the same quotient, which saves the correction nodes.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// Returns true if `value` is a size, or is computed from sizes and constants in a way that cannot make it negative;
// false if in doubt.
bool never_negative(Ctx& c, Val value);

}  // namespace whence::convert
