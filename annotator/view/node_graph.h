// NodeGraph: the nodes of an ONNX file, each with its row in the module tree, and the index of the values that connect
// them. Every drawing of a file starts from it: the report, DOT, GraphML.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/onnx_file/graph_index.h"
#include "annotator/view/module_tree.h"

namespace whence::view {

struct PlacedNode {
  const onnx_file::OnnxNode* node = nullptr;
  origin::Confidence confidence = origin::Confidence::unattributed;
  // The row of its module in the tree; for a fused node, of the common ancestor. nullopt: unattributed.
  std::optional<std::size_t> row = {};
};

struct NodeGraph {
  ModuleTree tree;
  onnx_file::GraphIndex index;
  std::unique_ptr<const metadata::Recorded> recorded;  // null if the file does not belong to the program
  std::vector<PlacedNode> nodes;                       // by number in the index

  // Reads the attribution again on each call: a million stored attributions take half a gigabyte.
  metadata::Attribution attribution_of(const PlacedNode& placed) const {
    return metadata::attribution_of(*placed.node, recorded.get());
  }
  std::vector<std::vector<std::size_t>> nodes_by_row() const;
};

// `program` may be null, as for tree_of(). Both must outlive the result. Cost: linear.
NodeGraph node_graph_of(const onnx_file::OnnxSummary& model, const Program* program);

}  // namespace whence::view
