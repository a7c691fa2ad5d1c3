// Sizes that an archive states as numbers though they follow from dynamic ones: x[:3] is 3 long for torch.export, which
// leaves out that an axis may be shorter than 2. The file has to be right where the archive's own checks let it run.
#pragma once

#include "annotator/pt2/part.h"
#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence::pt2 {

// Opens such sizes, from operation to operation, and notes as constraints what the archive takes for granted of others.
// `notes` gets a warning for a squeeze that keeps a dynamic axis.
void open_sizes(Program& program, const Place& place, Diagnostics& notes);

}  // namespace whence::pt2
