// Splits a group of replaced nodes into smaller groups by module: a tool that renamed all values between two
// convolutions replaced each convolution separately.
#pragma once

#include <vector>

#include "annotator/view/diff_pairs.h"

namespace whence::view {

// Splits a fusion: nodes `fusion.b` of one file replaced `fusion.a` of the other. A part with nodes of only one file
// holds removed or added nodes. Does not split if one of the files has no modules. Cost: O(a * b) in the nodes.
std::vector<NodePairs::Fusion> split_by_modules(const NodePairs::Fusion& fusion, const DiffNodes& a,
                                                const DiffNodes& b);

}  // namespace whence::view
