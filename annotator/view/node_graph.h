// NodeGraph: the nodes of an ONNX file, each at its place in the module tree, and the values that go from one to
// another. What every drawing of a file starts from: the report, DOT, GraphML.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/view/module_tree.h"

namespace whence::view {

struct PlacedNode {
  const onnx_file::OnnxNode* node = nullptr;
  metadata::Attribution attribution;
  std::optional<std::size_t> row;  // of the tree: its module, of a fused node the common ancestor; none: unattributed
};

// A value between two nodes. What a body of If, Loop or Scan returns goes to the node that holds the body.
struct NodeEdge {
  std::size_t from = 0, to = 0;
  std::string_view value;
};

// A value of the interface, and a node that reads or makes it.
struct InterfaceEdge {
  std::string_view value;
  std::size_t node = 0;
};

struct NodeGraph {
  ModuleTree tree;
  std::vector<PlacedNode> nodes;  // all_nodes(): file order, those of bodies behind their holder
  std::vector<NodeEdge> edges;    // by reading node, then input; initializers are not edges
  std::vector<InterfaceEdge> inputs, outputs;
};

// `program` may be null, as for tree_of. `model` must outlive the result. Cost: linear.
NodeGraph node_graph_of(const onnx_file::OnnxSummary& model, const Program* program);

}  // namespace whence::view
