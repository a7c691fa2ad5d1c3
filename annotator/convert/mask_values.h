// Determines whether an attention mask can mask a whole row. If so, the attention converter writes the zeros that
// PyTorch gives for such rows into the graph. Runs only at export; looks at constants, never at data.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// Returns true if some row (along the last axis) of a boolean or floating mask may mask every position, or if in doubt.
// A boolean row does so if it has no true element, a floating one if all are -inf. A mask that no -inf can reach, such
// as one built with the lowest finite number, never does.
bool may_mask_whole_row(Ctx& c, Val mask);

// Returns true if some row of a floating mask may hold only the lowest finite number of its dtype, or if in doubt.
bool may_fill_row_with_lowest(Ctx& c, Val mask);

}  // namespace whence::convert
