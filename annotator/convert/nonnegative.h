// What can be shown of the sign of integers in the graph. Sizes are never negative, and a division of such numbers
// rounds alike towards zero and downwards, which saves the nodes that would make the difference.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// True if `value` is a size, or made of sizes and constants in ways that keep it from being negative. False when in
// doubt.
bool never_negative(Ctx& c, Val value);

}  // namespace whence::convert
