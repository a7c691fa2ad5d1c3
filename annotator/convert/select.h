// Chooses between two values element by element, for every dtype that PyTorch's where() supports.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// condition ? a : b, all broadcast against each other. `condition` is boolean; a and b have the same dtype. Narrow
// integers come back as int32: yield() casts.
Val select(Ctx& c, Val condition, Val a, Val b);

}  // namespace whence::convert
