#include "annotator/annotation/changed_nodes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "schema/flat_map.h"

namespace whence::annotation {

namespace keys = origin::keys;
using onnx_file::OnnxNode;

namespace {

using Nodes = std::vector<const OnnxNode*>;
using ByName = FlatMap<std::string_view, const OnnxNode*>;  // null: several have the name

constexpr std::array statement_keys = {keys::module, keys::modules,    keys::call, keys::calls,
                                       keys::source, keys::confidence, keys::rule, keys::op};

// Both nodes state their origin.
bool same_statement(const OnnxNode& node, const OnnxNode& other) {
  if (node.metadata.same_bytes(other.metadata)) return true;  // most tools keep all of it or none
  return std::ranges::all_of(statement_keys,
                             [&](std::string_view key) { return node.metadata.find(key) == other.metadata.find(key); });
}

bool states_origin(const OnnxNode& node) { return node.metadata.find(keys::confidence).has_value(); }

bool is_of_body(const OnnxNode& node) {
  return node.metadata.find(keys::module).value_or("").starts_with(place_of_module);
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
  // Both outlive it.
  Comparison(const Nodes& nodes, const Nodes& before) : nodes_(nodes), before_(before) {}

  bool changed(const OnnxNode& node, const OnnxNode& old) {
    if (node.op_type != old.op_type || node.domain != old.domain) return true;
    if (node.outputs.empty() || old.outputs.empty()) return false;
    if (!same_value(node.outputs[0], old.outputs[0], node)) return true;
    // A tool may give a node more inputs behind its own.
    for (std::size_t i = 0; i < std::min(node.inputs.size(), old.inputs.size()); ++i) {
      if (node.inputs[i] != old.inputs[i] && was_made(old.inputs[i]) && source_of(node.inputs[i]) != old.inputs[i])
        return true;
    }
    return false;
  }

 private:
  // A tool that casts or quantises a result gives its name to the last of the nodes that it puts behind: the name is
  // then made from this node's result, by nodes that say nothing.
  bool same_value(std::string_view result, std::string_view old, const OnnxNode& node) {
    if (result == old) return true;
    std::string_view at = old;
    for (int steps = 0; steps < most_steps; ++steps) {
      const OnnxNode* maker = maker_of(at);
      if (maker == &node) return true;
      if (maker == nullptr || states_origin(*maker) || maker->inputs.empty()) return false;
      at = maker->inputs[0];
    }
    return false;
  }

  // The value of the file before that a value comes from by nodes that say nothing; itself if it is one.
  std::string_view source_of(std::string_view value) {
    for (int steps = 0; steps < most_steps && !was_made(value); ++steps) {
      const OnnxNode* maker = maker_of(value);
      if (maker == nullptr || states_origin(*maker) || maker->inputs.empty()) break;
      value = maker->inputs[0];
    }
    return value;
  }

  // Tables of all values are made for the first node that has other ones than before.
  const OnnxNode* maker_of(std::string_view value) {
    if (!makers_) makers_ = by_result(nodes_);
    const auto found = makers_->find(value);
    return found == makers_->end() ? nullptr : found->second;
  }
  bool was_made(std::string_view value) {
    if (!makers_before_) makers_before_ = by_result(before_);
    return makers_before_->contains(value);
  }

  static constexpr int most_steps = 8;  // a Cast, a QuantizeLinear and a DequantizeLinear are three

  const Nodes &nodes_, &before_;
  std::optional<ByName> makers_, makers_before_;
};

}  // namespace

std::vector<bool> changed_nodes(const Nodes& nodes, const Nodes& before) {
  std::vector<bool> changed(nodes.size(), false);
  const ByName named = by_name(before);
  Comparison comparison(nodes, before);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (is_of_body(*nodes[i])) {
      changed[i] = true;
      continue;
    }
    if (!states_origin(*nodes[i])) continue;
    const auto old = named.find(nodes[i]->name);
    if (old == named.end() || old->second == nullptr || !same_statement(*nodes[i], *old->second)) continue;
    changed[i] = comparison.changed(*nodes[i], *old->second);
  }
  return changed;
}

}  // namespace whence::annotation
