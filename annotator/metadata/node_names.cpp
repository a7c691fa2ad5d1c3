#include "annotator/metadata/node_names.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "annotator/origin/keys/undo.h"

namespace whence::metadata {

namespace keys = origin::keys;
using onnx_file::OnnxNode;

namespace {

using NodesByName = std::unordered_map<std::string_view, const OnnxNode*>;

NodesByName nodes_by_name(const std::vector<const OnnxNode*>& nodes, NameAge age) {
  NodesByName named;
  for (const OnnxNode* node : nodes) {
    if (const std::string_view name = name_of(*node, age); !name.empty()) named.emplace(name, node);
  }
  return named;
}

// Returns the node with this name, or with the longest prefix of it as name; null if there is none.
const OnnxNode* node_of(std::string_view name, const NodesByName& named) {
  const auto known = [&](std::string_view each) { return named.contains(each); };
  const std::string_view found = known(name) ? name : known_beginning(name, known);
  return found.empty() ? nullptr : named.at(found);
}

}  // namespace

std::string_view name_of(const OnnxNode& node, NameAge age) {
  if (age == NameAge::present) return node.name;
  return onnx_file::find_property(node.metadata, keys::original_name).value_or(node.name);
}

NamedNodes find_nodes(const std::vector<const OnnxNode*>& nodes, std::string_view name) {
  NamedNodes found;
  if (name.empty()) return found;
  std::vector<const OnnxNode*> producers;
  for (const OnnxNode* node : nodes) {
    if (node->name == name) {
      found.nodes.push_back(node);
    } else if (name_of(*node, NameAge::original) == name) {
      found.formerly.push_back(node);
    } else if (std::ranges::find(node->outputs, name) != node->outputs.end()) {
      producers.push_back(node);
    }
  }
  if (!found.nodes.empty()) return found;
  if (!found.formerly.empty()) return {std::move(found.formerly), NamedNodes::By::original_name, {}};
  return {std::move(producers), NamedNodes::By::value, {}};
}

ListedNames age_of_names(const std::vector<const OnnxNode*>& nodes, const std::vector<std::string>& names) {
  const bool renamed = std::ranges::any_of(nodes, [](const OnnxNode* node) {
    return onnx_file::find_property(node->metadata, keys::original_name).has_value();
  });
  if (!renamed) return {};
  const NodesByName present = nodes_by_name(nodes, NameAge::present);
  const NodesByName original = nodes_by_name(nodes, NameAge::original);
  std::size_t by_present = 0, by_original = 0;
  bool differ = false;
  for (const std::string& name : names) {
    const OnnxNode *now = node_of(name, present), *before = node_of(name, original);
    by_present += now == nullptr ? 0 : 1;
    by_original += before == nullptr ? 0 : 1;
    differ |= now != nullptr && before != nullptr && now != before;
  }
  return {by_original > by_present ? NameAge::original : NameAge::present, by_original == by_present && differ};
}

Diagnostic ambiguous_names(const std::string& list) {
  return warning(
      Code::usage,
      "its names are present names of nodes and also former names of other nodes, from before `whence annotate`; they "
      "are read as present names",
      "annotate the file again with --no-names, or profile the annotated file", {.file = list});
}

}  // namespace whence::metadata
