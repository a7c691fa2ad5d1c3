// NodePairs: which nodes of two ONNX files are the same node, and which nodes of the second file replaced which nodes
// of the first. The files do not say so; it is concluded from, strongest first:
//
// 1. the same value made by the same operator: tools rarely rename the values that they keep
// 2. the same node name and operator, when neither file has the other's values: a tool renamed the values
// 3. the same operation, by pkg.whence.id, and operator, in order, when both files have equally many such nodes left:
// so
//    two exports of one model line up
// 4. the same value made by another operator: if more than one node lies, in either file, between the value and the
//    nearest values that both files have, those of the second file replaced those of the first; nodes that only change
//    the layout of values are left out
// 5. the same node name and operator
// 6. the same modules, call and operator, in order, when both files have equally many such nodes left
// 7. the same operations, spelled out in other operators: those of the second file replaced those of the first
// 8. another operator between the same values: one replaced the other
//
// Neither values nor names make two nodes one that are surely of different operations: exporters number both.
//
// Cost: n log n of the nodes of both files.
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
    std::vector<std::size_t> a, b;  // in file order; if a node that stayed took others in, both sides hold it
  };
  std::vector<Pair> pairs;           // in the order of b
  std::vector<Fusion> fusions;       // in the order of b's last nodes
  std::vector<std::size_t> removed;  // nodes of a, neither paired nor fused
  std::vector<std::size_t> added;    // nodes of b, likewise
};

// True for a node that a tool put there for the operators around it: annotate found so, or its operator says so.
bool is_inserted(const DiffNode& each);

// `without_origins`: by 1, 2, 4 and 5 alone, so that the answer can be held against what the nodes say; then a fusion
// may be one node for one.
enum class Evidence : std::uint8_t { all, without_origins };

NodePairs pair_nodes(const DiffNodes& a, const DiffNodes& b, Evidence evidence = Evidence::all);

}  // namespace whence::view
