// NodeGraph: the nodes of an ONNX file, each at its place in the module tree, beside the index of the values that go
// from one to another. What every drawing of a file starts from: the report, DOT, GraphML.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/onnx_file/graph_index.h"
#include "annotator/view/module_tree.h"

namespace whence::view {

struct PlacedNode {
  const onnx_file::OnnxNode* node = nullptr;
  metadata::Attribution attribution;
  std::optional<std::size_t> row;  // of the tree: its module, of a fused node the common ancestor; none: unattributed
};

struct NodeGraph {
  ModuleTree tree;
  onnx_file::GraphIndex index;
  std::vector<PlacedNode> nodes;  // as the index numbers them

  std::vector<std::vector<std::size_t>> nodes_by_row() const;
};

// `program` may be null, as for tree_of. `model` must outlive the result. Cost: linear.
NodeGraph node_graph_of(const onnx_file::OnnxSummary& model, const Program* program);

}  // namespace whence::view
