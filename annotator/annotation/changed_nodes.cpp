#include "annotator/annotation/changed_nodes.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"

namespace whence::annotation {

namespace keys = origin::keys;
using onnx_file::OnnxNode;

namespace {

using Nodes = std::vector<const OnnxNode*>;
using ByName = std::unordered_map<std::string_view, const OnnxNode*>;  // null: several have the name

constexpr std::array statement_keys = {keys::module, keys::modules,    keys::call, keys::calls,
                                       keys::source, keys::confidence, keys::rule, keys::op};

bool same_statement(const OnnxNode& node, const OnnxNode& other) {
  if (!node.metadata.find(keys::confidence)) return false;
  return std::ranges::all_of(statement_keys,
                             [&](std::string_view key) { return node.metadata.find(key) == other.metadata.find(key); });
}

bool is_of_body(const OnnxNode& node) {
  return node.metadata.find(keys::module).value_or("").starts_with(place_of_module);
}

ByName by_name(const Nodes& nodes) {
  ByName found;
  for (const OnnxNode* node : nodes) {
    const auto [entry, first] = found.emplace(node->name, node);
    if (!first) entry->second = nullptr;
  }
  found.erase("");
  return found;
}

ByName by_result(const Nodes& nodes) {
  ByName found;
  for (const OnnxNode* node : nodes) {
    for (const std::string_view output : node->outputs) {
      if (!output.empty()) found.emplace(output, node);
    }
  }
  return found;
}

class Comparison {
 public:
  Comparison(const Nodes& nodes, const Nodes& before) : makers_(by_result(nodes)), before_(by_result(before)) {}

  bool changed(const OnnxNode& node, const OnnxNode& old) const {
    if (node.op_type != old.op_type || node.domain != old.domain) return true;
    if (node.outputs.empty() || old.outputs.empty()) return false;
    if (!same_value(node.outputs[0], old.outputs[0], node)) return true;
    // A tool may give a node more inputs behind its own.
    for (std::size_t i = 0; i < std::min(node.inputs.size(), old.inputs.size()); ++i) {
      if (before_.contains(old.inputs[i]) && source_of(node.inputs[i]) != old.inputs[i]) return true;
    }
    return false;
  }

 private:
  // A tool that casts or quantises a result gives its name to the last of the nodes that it puts behind: the name is
  // then made from this node's result, by nodes that say nothing.
  bool same_value(std::string_view result, std::string_view old, const OnnxNode& node) const {
    if (result == old) return true;
    std::string_view at = old;
    for (int steps = 0; steps < most_steps; ++steps) {
      const auto maker = makers_.find(at);
      if (maker == makers_.end()) return false;
      if (maker->second == &node) return true;
      if (is_stated(*maker->second) || maker->second->inputs.empty()) return false;
      at = maker->second->inputs[0];
    }
    return false;
  }

  // The value of the file before that a value comes from by nodes that say nothing; itself if it is one.
  std::string_view source_of(std::string_view value) const {
    for (int steps = 0; steps < most_steps && !before_.contains(value); ++steps) {
      const auto maker = makers_.find(value);
      if (maker == makers_.end() || is_stated(*maker->second) || maker->second->inputs.empty()) break;
      value = maker->second->inputs[0];
    }
    return value;
  }

  static bool is_stated(const OnnxNode& node) { return node.metadata.find(keys::confidence).has_value(); }

  static constexpr int most_steps = 8;  // a Cast, a QuantizeLinear and a DequantizeLinear are three

  ByName makers_, before_;
};

}  // namespace

std::vector<bool> changed_nodes(const Nodes& nodes, const Nodes& before) {
  std::vector<bool> changed(nodes.size(), false);
  const ByName named = by_name(before);
  const Comparison comparison(nodes, before);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (is_of_body(*nodes[i])) {
      changed[i] = true;
      continue;
    }
    const auto old = named.find(nodes[i]->name);
    if (old == named.end() || old->second == nullptr || !same_statement(*nodes[i], *old->second)) continue;
    changed[i] = comparison.changed(*nodes[i], *old->second);
  }
  return changed;
}

}  // namespace whence::annotation
