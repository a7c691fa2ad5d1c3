// V104: metadata of nodes, values, graphs, initializers or functions in a file whose IR version is below 10, which has
// none (onnx.proto: metadata_props were added with IR version 10). Only the model itself had metadata before.
#include "annotator/validate/check.h"

namespace whence {
namespace {

constexpr std::int64_t first_ir_with_metadata = 10;

bool has_metadata(const OnnxGraph& graph) {
  const auto on_values = [](const std::vector<OnnxValue>& values) {
    for (const OnnxValue& value : values) {
      if (!value.metadata.empty()) return true;
    }
    return false;
  };
  for (const OnnxTensor& tensor : graph.initializers) {
    if (!tensor.metadata.empty()) return true;
  }
  return !graph.metadata.empty() || on_values(graph.inputs) || on_values(graph.outputs) || on_values(graph.value_info);
}

std::vector<FindingItem> run(const CheckContext& context) {
  const OnnxSummary& model = context.model;
  if (model.ir_version >= first_ir_with_metadata) return {};
  const std::string version = "IR version " + std::to_string(model.ir_version);
  std::vector<FindingItem> items;
  for (const OnnxNode* node : context.nodes) {
    if (!node->metadata.empty()) items.push_back({shown_node(*node), version});
    for (const OnnxGraph& graph : node->subgraphs) {
      if (has_metadata(graph)) items.push_back({"graph " + std::string(graph.name), version});
    }
  }
  if (has_metadata(model.graph)) items.push_back({"graph " + std::string(model.graph.name), version});
  for (const OnnxFunction& function : model.functions) {
    if (!function.metadata.empty()) items.push_back({"function " + std::string(function.name), version});
  }
  return items;
}

}  // namespace

extern const Check metadata_needs_ir_10_check;
const Check metadata_needs_ir_10_check = {
    {"V104", "metadata_needs_ir_10", "things with metadata in a file whose IR version has none",
     "raise ir_version to 10: `whence annotate` does",
     "Metadata of nodes, values, graphs, initializers and functions came with IR version 10; readers of older versions "
     "may drop it or refuse the file.",
     Severity::warning},
    run};

}  // namespace whence
