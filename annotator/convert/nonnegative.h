// Proves that integers in the graph are not negative. Sizes never are, and a division of such numbers rounds towards
// zero and downwards to the same result, which saves the nodes that would make the difference.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// True if `value` is a size, or made of sizes and constants in ways that keep it from being negative. False when in
// doubt.
bool never_negative(Ctx& c, Val value);

}  // namespace whence::convert
