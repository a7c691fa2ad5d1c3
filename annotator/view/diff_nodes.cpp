#include "annotator/view/diff_nodes.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_set>

namespace whence::view {

using onnx_file::OnnxNode;
using onnx_file::OnnxSummary;

DiffNodes diff_nodes(const OnnxSummary& model, const Program* program, Reading read) {
  std::optional<metadata::Recorded> recorded;
  if (program != nullptr && metadata::belongs_to(model, *program)) recorded.emplace(*program);
  DiffNodes nodes;
  std::unordered_set<std::string_view> constants = {""};  // "" is an omitted input
  for (const onnx_file::OnnxTensor& tensor : model.graph.initializers) constants.insert(tensor.name);
  const std::vector<const OnnxNode*> all = onnx_file::all_nodes(model.graph);
  nodes.reserve(all.size());
  for (const OnnxNode* node : all) {
    const bool constant = node->subgraphs.empty() && std::all_of(node->inputs.begin(), node->inputs.end(),
                                                                 [&](auto name) { return constants.contains(name); });
    if (constant) constants.insert(node->outputs.begin(), node->outputs.end());
    nodes.push_back({node,
                     read == Reading::everything
                         ? metadata::attribution_of(*node, recorded ? &*recorded : nullptr)
                         : metadata::attribution_by_whence(*node, recorded ? &*recorded : nullptr),
                     constant});
    // Frees fields that diff does not use: two large files have two million nodes.
    nodes.back().attribution.source = std::string();
    nodes.back().attribution.origin.reset();
  }
  return nodes;
}

}  // namespace whence::view
