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
  std::unordered_set<std::string_view> constants = {""};  // an input that is left out
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
    // Two large files hold two million of them, and nothing here asks for these.
    nodes.back().attribution.source = std::string();
    nodes.back().attribution.origin.reset();
  }
  return nodes;
}

}  // namespace whence::view
