// Replaces fixed sizes in an archive with dynamic ones if they depend on an input: torch.export gives x[:3] the size 3,
// although the axis may be shorter. The file must be correct for all sizes that pass the archive's own checks.
#pragma once

#include "annotator/pt2/part.h"
#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence::pt2 {

// Derives the sizes operation by operation, and records the archive's other assumptions as constraints. `notes`
// receives a warning for a squeeze that keeps a dynamic axis.
void open_sizes(Program& program, const Place& place, Diagnostics& notes);

}  // namespace whence::pt2
