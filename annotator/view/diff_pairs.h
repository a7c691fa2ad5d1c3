// NodePairs: which nodes of two ONNX files are the same node, and which nodes of the second file replaced which nodes
// of the first. The files do not state this; it is inferred from these rules, strongest first:
//
// 1. the same value produced by the same operator: tools rarely rename the values that they keep
// 2. the same node name and operator, if neither file has the other's values: a tool renamed the values
// 3. the same operation (pkg.whence.id) and operator, in order, if both files have equally many unpaired nodes with
//    them: two exports of one model line up
// 4. the same value produced by another operator: if either file has more than one node between the value and the
//    nearest values in both files, the nodes of the second file replaced the nodes of the first; nodes that only change
//    the layout of values are left out
// 5. the same node name and operator
// 6. the same modules, call and operator, in order, if both files have equally many unpaired nodes with them
// 7. the same operations, expressed by other operators: the nodes of the second file replaced the nodes of the first
// 8. another operator between the same values: one node replaced the other
//
// Exporters number values and names, so neither pairs two nodes that certainly belong to different operations.
//
// Cost: O(n log n) in the nodes of both files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "annotator/view/diff_nodes.h"

namespace whence::view {

struct NodePairs {
  struct Pair {
    std::size_t a = 0, b = 0;
  };
  struct Fusion {
    std::vector<std::size_t> a, b;  // in file order; a paired node that absorbed others is in both lists
  };
  std::vector<Pair> pairs;           // in the order of b
  std::vector<Fusion> fusions;       // in the order of b's last nodes
  std::vector<std::size_t> removed;  // nodes of a, neither paired nor fused
  std::vector<std::size_t> added;    // nodes of b, neither paired nor in a fusion
};

// Returns true for a node that a tool inserted for the operators around it, by annotate's rule or by its operator.
bool is_inserted(const DiffNode& each);

// `without_origins` uses only rules 1, 2, 4 and 5, so that the result can be compared with the origins on the nodes. A
// fusion may then be one node for one.
enum class Evidence : std::uint8_t { all, without_origins };

NodePairs pair_nodes(const DiffNodes& a, const DiffNodes& b, Evidence evidence = Evidence::all);

}  // namespace whence::view
