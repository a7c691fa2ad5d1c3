#include "annotator/view/node_graph.h"

namespace whence::view {

NodeGraph node_graph_of(const onnx_file::OnnxSummary& model, const Program* program) {
  NodeGraph graph{tree_of(model, program), onnx_file::GraphIndex(model.graph), {}};
  std::optional<metadata::Recorded> recorded;
  if (program != nullptr && metadata::belongs_to(model, *program)) recorded.emplace(*program);
  graph.nodes.reserve(graph.index.nodes().size());
  for (const onnx_file::OnnxNode* node : graph.index.nodes()) {
    PlacedNode placed{node, metadata::attribution_of(*node, recorded ? &*recorded : nullptr), std::nullopt};
    if (placed.attribution.attributed()) {
      // The common ancestor of a fused node's modules has a row: every prefix of a path has.
      placed.row = graph.tree.find(placed.attribution.module).value_or(0);
    }
    graph.nodes.push_back(std::move(placed));
  }
  model.file->release_all();  // later steps read little of it
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
