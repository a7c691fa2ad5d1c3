// Which of the nodes that a tool put in the place of others stand for which of them, where the modules that the files
// name tell them apart: a tool that renames every value between two convolutions replaced each by itself.
#pragma once

#include <vector>

#include "annotator/view/diff_pairs.h"

namespace whence::view {

// Splits nodes `fusion.b` of one file, which took the place of `fusion.a` of the other. Parts without a node of either
// file are removed or added nodes. One part is left where one of the files says nothing of modules. Cost: the product
// of both numbers of nodes.
std::vector<NodePairs::Fusion> split_by_modules(const NodePairs::Fusion& fusion, const DiffNodes& a,
                                                const DiffNodes& b);

}  // namespace whence::view
