// V112: value_info of tensors that are not in the graph, left by a tool that renamed or removed nodes.
#include <set>

#include "annotator/validation/checks.h"
#include "annotator/validation/walk.h"

namespace whence::validation {

using onnx_file::OnnxGraph;
using onnx_file::OnnxNode;
using onnx_file::OnnxValue;

namespace {

using Names = std::set<std::string_view>;

void add_outputs(const std::vector<OnnxNode>& nodes, Names& names) {
  for (const OnnxNode& node : nodes) names.insert(node.outputs.begin(), node.outputs.end());
}

void add_orphans(const std::vector<OnnxValue>& values, const Names& names, std::vector<FindingItem>& items) {
  for (const OnnxValue& value : values) {
    if (!names.contains(value.name)) items.push_back({std::string(value.name), ""});
  }
}

// `names`: the names of the enclosing graphs, which a nested graph may describe again.
void add_orphans(const OnnxGraph& graph, Names names, std::vector<FindingItem>& items) {
  for (const OnnxValue& input : graph.inputs) names.insert(input.name);
  for (const onnx_file::OnnxTensor& tensor : graph.initializers) names.insert(tensor.name);
  add_outputs(graph.nodes, names);
  add_orphans(graph.value_info, names, items);
  for (const OnnxNode& node : graph.nodes) {
    for (const OnnxGraph& body : node.subgraphs) add_orphans(body, names, items);
  }
}

std::vector<FindingItem> find_value_info_orphan(const CheckContext& context) {
  std::vector<FindingItem> items;
  add_orphans(context.model.graph, {}, items);
  for (const onnx_file::OnnxFunction& function : context.model.functions) {
    Names names(function.inputs.begin(), function.inputs.end());
    add_outputs(function.nodes, names);
    add_orphans(function.value_info, names, items);
    for (const OnnxNode& node : function.nodes) {
      for (const OnnxGraph& body : node.subgraphs) add_orphans(body, names, items);
    }
  }
  return items;
}

}  // namespace

const Check value_info_orphan_check = {
    {"V112", "value_info_orphan", "types of tensors that do not exist",
     "delete the entries, or run shape inference again",
     "A tool renamed or removed nodes but left their types; the types of other tensors may be outdated too.",
     Severity::warning},
    find_value_info_orphan};

}  // namespace whence::validation
