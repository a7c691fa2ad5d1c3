#include "annotator/view/node_graph.h"

#include <set>
#include <unordered_map>
#include <unordered_set>

namespace whence::view {

using onnx_file::OnnxGraph;
using onnx_file::OnnxNode;
using onnx_file::OnnxValue;

namespace {

using Indices = std::unordered_map<const OnnxNode*, std::size_t>;

// The values that a graph's nodes can read: its own, else those of the graphs around it.
struct Visible {
  const Visible* outer = nullptr;
  std::unordered_map<std::string_view, std::optional<std::size_t>> makers;  // none: an input or initializer of it

  std::optional<std::size_t> maker(std::string_view value) const {
    for (const Visible* at = this; at != nullptr; at = at->outer) {
      if (const auto found = at->makers.find(value); found != at->makers.end()) return found->second;
    }
    return std::nullopt;
  }
};

class Linker {
 public:
  Linker(NodeGraph& to, const OnnxGraph& outermost) : to_(to) {
    const auto nodes = onnx_file::all_nodes(outermost);
    for (std::size_t i = 0; i < nodes.size(); ++i) indices_.emplace(nodes[i], i);
    for (const OnnxValue& input : outermost.inputs) inputs_.insert(input.name);
    for (const onnx_file::OnnxTensor& tensor : outermost.initializers) inputs_.erase(tensor.name);
  }

  void link(const OnnxGraph& graph, const Visible* outer, std::optional<std::size_t> holder) {
    Visible visible{outer, {}};
    for (const OnnxValue& input : graph.inputs) visible.makers.emplace(input.name, std::nullopt);
    for (const onnx_file::OnnxTensor& tensor : graph.initializers) visible.makers.emplace(tensor.name, std::nullopt);
    for (const OnnxNode& node : graph.nodes) {
      for (const std::string_view output : node.outputs) {
        if (!output.empty()) visible.makers.insert_or_assign(output, indices_.at(&node));
      }
    }
    for (const OnnxNode& node : graph.nodes) {
      read(visible, node);
      for (const OnnxGraph& body : node.subgraphs) link(body, &visible, indices_.at(&node));
    }
    for (const OnnxValue& output : graph.outputs) {
      const auto maker = visible.maker(output.name);
      if (!maker) continue;
      holder ? to_.edges.push_back({*maker, *holder, output.name}) : to_.outputs.push_back({output.name, *maker});
    }
  }

 private:
  void read(const Visible& visible, const OnnxNode& node) {
    std::set<std::string_view> seen;  // a square reads one value twice, and is one edge
    for (const std::string_view input : node.inputs) {
      if (input.empty() || !seen.insert(input).second) continue;
      if (const auto maker = visible.maker(input)) {
        to_.edges.push_back({*maker, indices_.at(&node), input});
      } else if (inputs_.contains(input)) {
        to_.inputs.push_back({input, indices_.at(&node)});
      }
    }
  }

  NodeGraph& to_;
  Indices indices_;
  std::unordered_set<std::string_view> inputs_;
};

}  // namespace

NodeGraph node_graph_of(const onnx_file::OnnxSummary& model, const Program* program) {
  NodeGraph graph;
  graph.tree = tree_of(model, program);
  std::unordered_map<std::string_view, std::size_t> rows;
  for (std::size_t i = 0; i < graph.tree.rows.size(); ++i) rows.emplace(graph.tree.rows[i].path, i);
  std::optional<metadata::Recorded> recorded;
  if (program != nullptr && metadata::belongs_to(model, *program)) recorded.emplace(*program);
  for (const OnnxNode* node : onnx_file::all_nodes(model.graph)) {
    PlacedNode placed{node, metadata::attribution_of(*node, recorded ? &*recorded : nullptr), std::nullopt};
    if (placed.attribution.attributed()) {
      // The common ancestor of a fused node's modules has a row: every prefix of a path has.
      const auto row = rows.find(placed.attribution.module);
      placed.row = row == rows.end() ? 0 : row->second;
    }
    graph.nodes.push_back(std::move(placed));
  }
  Linker(graph, model.graph).link(model.graph, nullptr, std::nullopt);
  return graph;
}

}  // namespace whence::view
