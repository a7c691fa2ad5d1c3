// Choosing between two values element by element, for every dtype that PyTorch has where() for.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// condition ? a : b, all broadcast against each other. `condition` is boolean; a and b are of one dtype. Narrow
// integers come back as int32: yield() casts.
Val select(Ctx& c, Val condition, Val a, Val b);

}  // namespace whence::convert
