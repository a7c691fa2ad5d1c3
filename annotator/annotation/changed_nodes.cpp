#include "annotator/annotation/changed_nodes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "annotator/origin/keys/functions.h"
#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "schema/flat_map.h"

namespace whence::annotation {

namespace keys = origin::keys;
using onnx_file::OnnxNode;

namespace {

using Nodes = std::vector<const OnnxNode*>;
using ByName = FlatMap<std::string_view, const OnnxNode*>;  // null if several nodes have the name

constexpr std::array origin_keys = {keys::module, keys::modules,    keys::primary, keys::call, keys::calls,
                                    keys::source, keys::confidence, keys::rule,    keys::op};

// Returns true if two nodes with an origin state the same origin.
bool same_origin(const OnnxNode& node, const OnnxNode& other) {
  if (node.metadata.same_bytes(other.metadata)) return true;  // fast path: most tools keep all metadata or none
  return std::ranges::all_of(origin_keys,
                             [&](std::string_view key) { return node.metadata.find(key) == other.metadata.find(key); });
}

bool states_origin(const OnnxNode& node) { return node.metadata.find(keys::confidence).has_value(); }

bool has_placeholder(const OnnxNode& node) {
  return node.metadata.find(keys::module).value_or("").starts_with(keys::module_placeholder);
}

ByName by_name(const Nodes& nodes) {
  ByName found;
  found.reserve(nodes.size());
  for (const OnnxNode* node : nodes) {
    const auto [entry, first] = found.emplace(node->name, node);
    if (!first) entry.value() = nullptr;
  }
  found.erase("");
  return found;
}

ByName by_result(const Nodes& nodes) {
  ByName found;
  found.reserve(nodes.size());
  for (const OnnxNode* node : nodes) {
    for (const std::string_view output : node->outputs) {
      if (!output.empty()) found.emplace(output, node);
    }
  }
  return found;
}

class Comparison {
 public:
  // Both arguments must outlive this object.
  Comparison(const Nodes& nodes, const Nodes& before) : nodes_(nodes), before_(before) {}

  // Returns the node of the previous file that computed the same first result; null if there was none.
  const OnnxNode* with_result_of(const OnnxNode& node) {
    if (node.outputs.empty() || node.outputs[0].empty()) return nullptr;
    const auto found = producers_before().find(node.outputs[0]);
    return found == producers_before().end() ? nullptr : found->second;
  }

  bool changed(const OnnxNode& node, const OnnxNode& old) {
    if (node.op_type != old.op_type || node.domain != old.domain) return true;
    if (node.outputs.empty() || old.outputs.empty()) return false;
    if (!same_value(node.outputs[0], old.outputs[0], node)) return true;
    // Only the node's original inputs are compared: a tool may append further inputs.
    for (std::size_t i = 0; i < std::min(node.inputs.size(), old.inputs.size()); ++i) {
      if (node.inputs[i] != old.inputs[i] && is_old_result(old.inputs[i]) && source_of(node.inputs[i]) != old.inputs[i])
        return true;
    }
    return false;
  }

 private:
  // Returns true if the result has its old name, or if nodes without an origin compute the value of that name from the
  // node's result: a tool that casts or quantises a result gives its name to the last inserted node.
  bool same_value(std::string_view result, std::string_view old, const OnnxNode& node) {
    if (result == old) return true;
    std::string_view at = old;
    for (int steps = 0; steps < max_steps; ++steps) {
      const OnnxNode* producer = producer_of(at);
      if (producer == &node) return true;
      if (producer == nullptr || states_origin(*producer) || producer->inputs.empty()) return false;
      at = producer->inputs[0];
    }
    return false;
  }

  // Follows a value back through nodes without an origin to a value of the previous file.
  std::string_view source_of(std::string_view value) {
    for (int steps = 0; steps < max_steps && !is_old_result(value); ++steps) {
      const OnnxNode* producer = producer_of(value);
      if (producer == nullptr || states_origin(*producer) || producer->inputs.empty()) break;
      value = producer->inputs[0];
    }
    return value;
  }

  // The tables of producers are built on first use: most nodes have the same values as before.
  const OnnxNode* producer_of(std::string_view value) {
    if (!producers_) producers_ = by_result(nodes_);
    const auto found = producers_->find(value);
    return found == producers_->end() ? nullptr : found->second;
  }
  bool is_old_result(std::string_view value) { return producers_before().contains(value); }

  const ByName& producers_before() {
    if (!producers_before_) producers_before_ = by_result(before_);
    return *producers_before_;
  }

  static constexpr int max_steps = 8;  // a Cast, a QuantizeLinear and a DequantizeLinear are three

  const Nodes &nodes_, &before_;
  std::optional<ByName> producers_, producers_before_;
};

}  // namespace

std::vector<bool> changed_nodes(const Nodes& nodes, const Nodes& before) {
  std::vector<bool> changed(nodes.size(), false);
  const ByName named = by_name(before);
  Comparison comparison(nodes, before);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (has_placeholder(*nodes[i])) {
      changed[i] = true;
      continue;
    }
    if (!states_origin(*nodes[i])) continue;
    const auto same_name = named.find(nodes[i]->name);
    const OnnxNode* old = same_name == named.end() ? nullptr : same_name->second;
    if (old == nullptr) old = comparison.with_result_of(*nodes[i]);  // tools that create nodes may leave them unnamed
    if (old == nullptr || !same_origin(*nodes[i], *old)) continue;
    changed[i] = comparison.changed(*nodes[i], *old);
  }
  return changed;
}

}  // namespace whence::annotation
