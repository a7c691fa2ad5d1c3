#include "annotator/view/node_graph.h"

namespace whence::view {

NodeGraph node_graph_of(const onnx_file::OnnxSummary& model, const Program* program) {
  NodeGraph graph{tree_of(model, program), onnx_file::GraphIndex(model.graph), nullptr, {}};
  if (program != nullptr && metadata::belongs_to(model, *program)) {
    graph.recorded = std::make_unique<const metadata::Recorded>(*program);
  }
  graph.nodes.reserve(graph.index.nodes().size());
  for (const onnx_file::OnnxNode* node : graph.index.nodes()) {
    PlacedNode& placed = graph.nodes.emplace_back(PlacedNode{node});
    const metadata::Attribution attribution = graph.attribution_of(placed);
    placed.confidence = attribution.confidence;
    // The module of the main operation has a row: it is one of the node's modules, or a prefix of their paths.
    if (attribution.attributed()) placed.row = graph.tree.find(attribution.primary).value_or(0);
  }
  return graph;
}

std::vector<std::vector<std::size_t>> NodeGraph::nodes_by_row() const {
  std::vector<std::vector<std::size_t>> by_row(tree.rows.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].row) by_row[*nodes[i].row].push_back(i);
  }
  return by_row;
}

}  // namespace whence::view
