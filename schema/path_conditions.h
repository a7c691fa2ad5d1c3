// Ranges of sizes under the conditions around an operation: in the second side of `if n > 1` a length n is 0 or 1.
#pragma once

#include <vector>

#include "schema/size.h"

namespace whence {

Relation negated(Relation relation);

// The range of `size` where the comparisons hold. They narrow it if they compare it, or another size that is a number
// apart from it, with an integer. Ends that contradict each other leave a range that holds no number.
SizeRange range_under(const std::vector<Comparison>& conditions, const Size& size, const SymbolRanges& ranges);

}  // namespace whence
