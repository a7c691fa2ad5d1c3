// OperationGroups: nodes of two files brought together by the operations that they stand for, so that it shows which
// nodes of the second spell out what which nodes of the first did. Called by diff_pairs.cpp.
//
// Cost: about linear in the identities added.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "annotator/view/diff_pairs.h"
#include "schema/disjoint_sets.h"
#include "schema/flat_map.h"

namespace whence::view {

class OperationGroups {
 public:
  using Side = std::vector<std::size_t> NodePairs::Fusion::*;

  // A node that stands for these operations; one without any is left out.
  void add(const std::vector<std::string>& ids, std::size_t node, Side side);

  // The groups that have nodes of both files, in the order of their first nodes.
  std::vector<NodePairs::Fusion> fusions();

 private:
  struct Added {
    std::size_t operation, node;
    Side side;
  };

  FlatMap<std::string, std::size_t> known_;
  DisjointSets operations_;  // united by the nodes that stand for several
  std::vector<Added> added_;
};

}  // namespace whence::view
