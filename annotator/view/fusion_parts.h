// Splits a group of nodes that a tool replaced by others into smaller groups, by the modules that the files name: a
// tool that renamed all values between two convolutions replaced each by itself.
#pragma once

#include <vector>

#include "annotator/view/diff_pairs.h"

namespace whence::view {

// Splits nodes `fusion.b` of one file, which took the place of `fusion.a` of the other. Parts without a node of either
// file are removed or added nodes. Does not split when one of the files names no modules. Cost: the product of both
// numbers of nodes.
std::vector<NodePairs::Fusion> split_by_modules(const NodePairs::Fusion& fusion, const DiffNodes& a,
                                                const DiffNodes& b);

}  // namespace whence::view
