// Dropout as training applies it, for programs recorded in training mode.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// Zeroes elements with probability `ratio` and scales the rest by 1 / (1 - ratio); the value itself for ratio 0.
Val training_dropout(Ctx& c, Val value, double ratio);

// The same, with the mask of the elements that are kept (boolean) as the second result.
std::vector<Val> training_dropout_with_mask(Ctx& c, Val value, double ratio);

}  // namespace whence::convert
