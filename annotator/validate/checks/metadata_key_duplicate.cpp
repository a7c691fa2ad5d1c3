// V103: a metadata key that occurs twice on one thing. ONNX forbids it and no checker looks: readers disagree on which
// value holds.
#include <set>

#include "annotator/validate/check.h"

namespace whence {
namespace {

void add_duplicates(const OnnxProperties& metadata, const std::string& owner, std::vector<FindingItem>& items) {
  std::set<std::string_view> seen, told;
  for (const OnnxProperty& entry : metadata) {
    if (!seen.insert(entry.key).second && told.insert(entry.key).second)
      items.push_back({owner, std::string(entry.key)});
  }
}

void add_nodes(const std::vector<OnnxNode>& nodes, std::vector<FindingItem>& items);

void add_graph(const OnnxGraph& graph, std::vector<FindingItem>& items) {
  add_duplicates(graph.metadata, "graph " + std::string(graph.name), items);
  for (const auto* values : {&graph.inputs, &graph.outputs, &graph.value_info}) {
    for (const OnnxValue& value : *values) add_duplicates(value.metadata, "value " + std::string(value.name), items);
  }
  for (const OnnxTensor& tensor : graph.initializers) {
    add_duplicates(tensor.metadata, "initializer " + std::string(tensor.name), items);
  }
  add_nodes(graph.nodes, items);
}

void add_nodes(const std::vector<OnnxNode>& nodes, std::vector<FindingItem>& items) {
  for (const OnnxNode& node : nodes) {
    add_duplicates(node.metadata, shown_node(node), items);
    for (const OnnxGraph& graph : node.subgraphs) add_graph(graph, items);
  }
}

std::vector<FindingItem> run(const CheckContext& context) {
  std::vector<FindingItem> items;
  add_duplicates(context.model.metadata, "the model", items);
  add_graph(context.model.graph, items);
  for (const OnnxFunction& function : context.model.functions) {
    add_duplicates(function.metadata, "function " + std::string(function.name), items);
    add_nodes(function.nodes, items);
  }
  return items;
}

}  // namespace

extern const Check metadata_key_duplicate_check;
const Check metadata_key_duplicate_check = {
    {"V103", "metadata_key_duplicate", "metadata keys that occur twice on one owner",
     "keep one entry for each key; `whence strip` removes those that whence wrote",
     "ONNX forbids it and no checker looks: readers disagree on which value holds.", Severity::warning},
    run};

}  // namespace whence
