#include "annotator/functions/graph_digest.h"

#include <algorithm>
#include <unordered_map>

#include "annotator/functions/block.h"
#include "annotator/functions/call_text.h"
#include "annotator/functions/work_graph.h"

namespace whence::functions {
namespace {

std::string metadata_text(const onnx::NodeProto& node) {
  std::string text;
  for_each_node(node, [&](const onnx::NodeProto& each) {
    std::vector<std::string> entries;
    for (const onnx::StringStringEntryProto& entry : each.metadata_props()) {
      entries.push_back(entry.key() + '\0' + entry.value());
    }
    std::ranges::sort(entries);
    for (const std::string& entry : entries) text += entry + '\0';
    text += '\n';
  });
  return text;
}

}  // namespace

std::string graph_digest(const ModelParts& parts) {
  ModelParts copy = parts;
  const WorkGraph graph(copy);
  std::unordered_map<WorkValueId, std::string> digests;
  const auto leaf = [&](WorkValueId id) {
    if (const onnx::TensorProto* tensor = graph.constant(id)) {
      const std::string content = content_of(*tensor);
      return "constant " + digest_of(content.data(), content.size());
    }
    return "named " + graph.value(id).name;
  };
  const auto digest = [&](WorkValueId id) -> const std::string& {
    const auto [entry, is_new] = digests.try_emplace(id);
    if (is_new) entry->second = leaf(id);
    return entry->second;
  };
  std::vector<std::string> all;
  for (const WorkNode& node : graph.nodes()) {
    if (node.node.op_type() == "Constant" && !node.writes.empty() && graph.constant(node.writes[0]) != nullptr)
      continue;
    const std::string form = normal_form(node.node, [&](const std::string& name) {
      const WorkValueId id = graph.find(name);
      const bool own = std::ranges::find(node.writes, id) != node.writes.end();
      return own ? std::string("own") : digest(id);
    });
    const std::string computed = digest_of(form.data(), form.size());
    for (std::size_t k = 0; k < node.writes.size(); ++k) {
      if (node.writes[k] >= 0) digests[node.writes[k]] = computed + "." + std::to_string(k);
    }
    all.push_back(computed + metadata_text(node.node));
  }
  std::ranges::sort(all);
  std::string text;
  for (const std::string& each : all) text += digest_of(each.data(), each.size());
  for (const onnx::ValueInfoProto& output : copy.model.graph().output()) {
    text += output.name() + "=" + digest(graph.find(output.name())) + "\n";
  }
  return digest_of(text.data(), text.size());
}

}  // namespace whence::functions
