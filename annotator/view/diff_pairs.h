// NodePairs: which nodes of two ONNX files are the same node, and which nodes of the second one took the place of which
// of the first. No file says so; what is gone by, strongest first:
//
// 1. the same value made by the same operator: names of values stay where the value does, whatever a tool did beside it
// 2. the same node name and operator, when neither file has the other's values: a tool gave them other names
// 3. the same value made by another operator: what lies, in either file, between it and the nearest values that both
//    have was put in the place of the other, when it is more than one node; what only lays out values anew is not
// 4. the same node name and operator
// 5. the same modules, call and operator, when both files have equally many of those that are left: in order
//
// Cost: n log n of the nodes of both files.
#pragma once

#include <cstddef>
#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::view {

struct DiffNode {
  const onnx_file::OnnxNode* node = nullptr;
  metadata::Attribution attribution;
  bool constant = false;  // depends on no input of the model: a tool that computes it beforehand leaves no trace
};
using DiffNodes = std::vector<DiffNode>;

struct NodePairs {
  struct Pair {
    std::size_t a = 0, b = 0;
  };
  struct Fusion {
    std::vector<std::size_t> a, b;  // in file order; with the node's own pair when one that stayed took others in
  };
  std::vector<Pair> pairs;           // in the order of b
  std::vector<Fusion> fusions;       // in the order of b's last nodes
  std::vector<std::size_t> removed;  // of a: neither paired nor fused
  std::vector<std::size_t> added;    // of b
};

// Put there by a tool for the operators around it: as annotate found, or as its own operator says.
bool is_inserted(const DiffNode& each);

NodePairs pair_nodes(const DiffNodes& a, const DiffNodes& b);

}  // namespace whence::view
