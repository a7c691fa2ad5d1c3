#include "annotator/functions/graph_digest.h"

#include <algorithm>
#include <map>

#include "annotator/functions/block.h"
#include "annotator/functions/work_graph.h"
#include "annotator/onnx_file/walk.h"

namespace whence::functions {

using onnx_file::OnnxNode;

namespace {

std::string digest_of(const std::string& text) { return whence::digest_of(text.data(), text.size()); }

// ONNX Runtime's fusions write several entries under one key: the first counts, as it does for what a call keeps.
std::string metadata_text(const OnnxNode& node) {
  std::string text;
  onnx_file::walk_nodes(node, [&](const OnnxNode& each) {
    std::map<std::string_view, std::string_view> entries;
    for (const onnx_file::OnnxProperty& entry : each.metadata.list()) entries.emplace(entry.key, entry.value);
    for (const auto& [key, value] : entries) text.append(key).append(1, '\0').append(value).append(1, '\0');
    text += '\n';
  });
  return text;
}

}  // namespace

std::string graph_digest(ModelParts& parts) {
  const WorkGraph graph(parts, /*placed=*/false);
  std::vector<std::string> digests(graph.value_count());
  const auto digest = [&](ValueId id) -> const std::string& {
    std::string& known = digests[id];
    if (!known.empty()) return known;
    const onnx_file::OnnxTensor* const tensor = graph.constant(id);
    return known = tensor != nullptr ? "constant " + digest_of(content_of(*tensor))
                                     : "named " + std::string(graph.value(id).name);
  };
  std::vector<std::string> all;
  for (const WorkNode& node : graph.nodes()) {
    if (node.node->op_type == "Constant" && !node.writes.empty() && graph.constant(node.writes[0]) != nullptr) continue;
    const std::string form = normal_form(*node.node, [&](const std::string& name) {
      const ValueId id = graph.find(name);
      const bool own = std::ranges::find(node.writes, id) != node.writes.end();
      return own ? std::string("own") : digest(id);
    });
    const std::string computed = digest_of(form);
    for (std::size_t k = 0; k < node.writes.size(); ++k) {
      if (node.writes[k] >= 0) digests[node.writes[k]] = computed + "." + std::to_string(k);
    }
    all.push_back(digest_of(computed + metadata_text(*node.node)));
  }
  std::ranges::sort(all);
  std::string text;
  for (const std::string& each : all) text += each;
  for (const onnx_file::OnnxValue& output : parts.graph.outputs) {
    text += std::string(output.name) + "=" + digest(graph.find(output.name)) + "\n";
  }
  return digest_of(text);
}

}  // namespace whence::functions
