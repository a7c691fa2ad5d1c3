// Compares the recorded sizes of axes.
#pragma once

#include "schema/program.h"

namespace whence::simplify {

inline bool is_known(const Dim& dim) { return dim.is_static() || (dim.dynamic && dim.symbol != none_id); }

// Returns false if the sizes may differ.
inline bool same_size(const Dim& a, const Dim& b) {
  if (!is_known(a) || !is_known(b) || a.dynamic != b.dynamic) return false;
  return a.dynamic ? a.symbol == b.symbol : a.size == b.size;
}

inline bool is_one(const Dim& dim) { return dim.is_static() && dim.size == 1; }

}  // namespace whence::simplify
