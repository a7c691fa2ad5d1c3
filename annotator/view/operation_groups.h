// OperationGroups: groups nodes of two files by the recorded operations that they implement, to find nodes of the
// second file that replaced nodes of the first. Called by diff_pairs.cpp.
//
// Cost: about linear in the number of identities added.
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

  // Adds a node that implements these operations; ignores a node without any.
  void add(const std::vector<std::string>& ids, std::size_t node, Side side);

  // Returns the groups with nodes of both files, in the order of their first nodes.
  std::vector<NodePairs::Fusion> fusions();

 private:
  struct Added {
    std::size_t operation, node;
    Side side;
  };

  FlatMap<std::string, std::size_t> known_;
  DisjointSets operations_;  // operations of one node are united
  std::vector<Added> added_;
};

}  // namespace whence::view
