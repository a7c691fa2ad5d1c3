// Finds writes that read elements they overwrite: y[1:] = y[:-1].
#pragma once

#include "schema/place.h"

namespace whence::lower {

// Returns true if, at the sizes of the example, a write to `target` may change elements of `source` before they are
// read. An elementwise operation (`in_place`) may read an element at the position that it writes; otherwise any shared
// element counts. Both places refer to the same owner. Returns false if sizes are unknown.
bool reads_what_it_overwrites(const Program& program, const MemoryPlace& target, const MemoryPlace& source,
                              bool in_place);

}  // namespace whence::lower
