// V101: nodes without a name. ONNX allows that, but profilers, quantisers and whence's reports cannot refer to them.
#include "annotator/validation/checks.h"

namespace whence::validation {

namespace {

std::vector<FindingItem> find_node_name_empty(const CheckContext& context) {
  std::vector<FindingItem> items;
  for (const onnx_file::OnnxNode* node : context.nodes) {
    if (node->name.empty()) items.push_back({shown_node(*node), ""});
  }
  return items;
}

}  // namespace

const Check node_name_empty_check = {
    {"V101", "node_name_empty", "nodes without a name", "`whence annotate` names the nodes whose module it finds",
     "ONNX allows that, but profilers, quantisers and reports cannot refer to the node.", Severity::warning},
    find_node_name_empty};

}  // namespace whence::validation
