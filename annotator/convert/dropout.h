// Dropout as training applies it, for programs recorded in training mode.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// Zeroes elements with probability `ratio` and scales all others by 1 / (1 - ratio). Returns `value` itself for ratio
// 0.
Val training_dropout(Ctx& c, Val value, double ratio);

// Also returns the boolean mask of the kept elements as the second result.
std::vector<Val> training_dropout_with_mask(Ctx& c, Val value, double ratio);

}  // namespace whence::convert
