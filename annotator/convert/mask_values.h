// Finds out whether an attention mask can mask a row fully. If so, the zeros that PyTorch gives for such rows are
// written into the graph. Called by the attention converter only while exporting; looks at constants, never at data.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// True if some row (along the last axis) of a boolean or floating mask may mask every position. True when in doubt.
// Boolean: nothing true. Floating: all -inf; a mask that no -inf can reach, as those built with the lowest finite
// number, never does.
bool may_mask_whole_row(Ctx& c, Val mask);

// True if some row of a floating mask may hold nothing but the lowest finite number of its dtype. True when in doubt.
bool may_fill_row_with_lowest(Ctx& c, Val mask);

}  // namespace whence::convert
