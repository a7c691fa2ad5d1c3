// Ranges of sizes under the conditions around an operation: in the else branch of `if n > 1`, a length n is 0 or 1.
#pragma once

#include <vector>

#include "schema/size.h"

namespace whence {

Relation negated(Relation relation);

// Returns the range of `size` under the conditions. A comparison narrows it if left - right is size + c or -size + c
// for an integer c. Contradictory conditions give an empty range (min > max).
SizeRange range_under(const std::vector<Comparison>& conditions, const Size& size, const SymbolRanges& ranges);

}  // namespace whence
