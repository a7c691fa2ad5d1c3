#include "annotator/functions/graph_digest.h"

#include <algorithm>
#include <compare>
#include <cstdint>

#include <xxhash.h>

#include "annotator/functions/block.h"
#include "annotator/functions/work_graph.h"
#include "annotator/onnx_file/walk.h"

namespace whence::functions {

using onnx_file::OnnxNode;

namespace {

std::string digest_of(const std::string& text) { return whence::digest_of(text.data(), text.size()); }

// ONNX Runtime's fusions write several entries with one key: only the first counts, as in differences().
void append_metadata(const OnnxNode& node, std::string& to) {
  onnx_file::walk_nodes(node, [&](const OnnxNode& each) {
    onnx_file::OnnxProperties entries = each.metadata.list();
    std::ranges::stable_sort(entries, {}, &onnx_file::OnnxProperty::key);
    std::string_view last;
    for (const auto& [key, value] : entries) {
      if (&value != &entries.front().value && key == last) continue;
      to.append(key).append(1, '\0').append(value).append(1, '\0');
      last = key;
    }
    to += '\n';
  });
}

struct NodeDigest {
  std::uint64_t high, low;

  auto operator<=>(const NodeDigest&) const = default;
};

}  // namespace

std::string graph_digest(ModelParts& parts) {
  const WorkGraph graph(parts, /*with_calls=*/false);
  std::vector<std::string> digests(graph.value_count());
  const auto digest = [&](ValueId id) -> const std::string& {
    std::string& cached = digests[id];
    if (!cached.empty()) return cached;
    const onnx_file::OnnxTensor* const tensor = graph.constant(id);
    return cached = tensor != nullptr ? "constant " + digest_of(content_of(*tensor))
                                      : "named " + std::string(graph.value(id).name);
  };
  std::vector<NodeDigest> node_digests;
  for (const WorkNode& node : graph.nodes()) {
    if (node.node->op_type == "Constant" && !node.writes.empty() && graph.constant(node.writes[0]) != nullptr) continue;
    std::string form = normal_form(*node.node, [&](const std::string& name) {
      const ValueId id = graph.find(name);
      const bool is_own_output = std::ranges::find(node.writes, id) != node.writes.end();
      return is_own_output ? std::string("own") : digest(id);
    });
    const std::string computed = digest_of(form);
    for (std::size_t k = 0; k < node.writes.size(); ++k) {
      if (node.writes[k] >= 0) digests[node.writes[k]] = computed + "." + std::to_string(k);
    }
    form = computed;
    append_metadata(*node.node, form);
    const XXH128_hash_t digest_with_metadata = XXH3_128bits(form.data(), form.size());
    node_digests.push_back({digest_with_metadata.high64, digest_with_metadata.low64});
  }
  std::ranges::sort(node_digests);
  std::string text = whence::digest_of(node_digests.data(), node_digests.size() * sizeof(NodeDigest));
  for (const onnx_file::OnnxValue& output : parts.graph.outputs) {
    text += std::string(output.name) + "=" + digest(graph.find(output.name)) + "\n";
  }
  return digest_of(text);
}

}  // namespace whence::functions
