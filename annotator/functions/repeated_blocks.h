// Parts of a graph that repeat one after the other, found by what the nodes compute: for files that say nothing of
// modules. What is found is a proposal: regions (region.h) and blocks (block.h) decide what can be one function.
#pragma once

#include <vector>

#include "annotator/functions/model_parts.h"

namespace whence {

struct RepeatedBlock {
  int family = 0;          // blocks of one family are equal; numbered as they occur
  int ordinal = 0;         // within its family
  std::vector<int> nodes;  // indices into the graph's nodes
};

// The nodes are put in the order in which the outputs need them, whatever order the file has, what needs no weights
// first; then runs of that order which repeat at once, those first that save the most nodes. A block begins where the
// fewest values cross.
// Cost: nodes times the longest period, which is at most 2048 nodes.
std::vector<RepeatedBlock> repeated_blocks(const ModelParts& parts);

}  // namespace whence
