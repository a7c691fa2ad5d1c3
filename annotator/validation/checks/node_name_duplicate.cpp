// V102: a name that several nodes have, including nodes in branches and loop bodies. A lookup by name finds only one.
#include <map>

#include "annotator/validation/checks.h"

namespace whence::validation {

namespace {

std::vector<FindingItem> find_node_name_duplicate(const CheckContext& context) {
  std::map<std::string_view, std::size_t> uses;
  for (const onnx_file::OnnxNode* node : context.nodes) {
    if (!node->name.empty()) ++uses[node->name];
  }
  std::vector<FindingItem> items;
  for (const auto& [name, count] : uses) {
    if (count > 1) items.push_back({std::string(name), std::to_string(count) + " nodes"});
  }
  return items;
}

}  // namespace

const Check node_name_duplicate_check = {
    {"V102", "node_name_duplicate", "names that several nodes have", "`whence annotate` makes names unique",
     "A lookup by name finds only one of the nodes. Nodes in branches and loop bodies are included.",
     Severity::warning},
    find_node_name_duplicate};

}  // namespace whence::validation
