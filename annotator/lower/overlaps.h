// Writes that read what they overwrite: y[1:] = y[:-1].
#pragma once

#include "schema/place.h"

namespace whence::lower {

// True if, at the sizes of the example, a write to `target` may change elements of `source` before they are read.
// Element by element (`in_place`), one may be read where it is written; otherwise any shared element counts. Both are
// elements of one owner. False where the sizes are not known.
bool reads_what_it_overwrites(const Program& program, const MemoryPlace& target, const MemoryPlace& source,
                              bool in_place);

}  // namespace whence::lower
