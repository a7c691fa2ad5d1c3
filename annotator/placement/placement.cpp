#include "annotator/placement/placement.h"

#include <algorithm>
#include <map>
#include <set>

#include "annotator/onnx_file/graph_index.h"
#include "annotator/onnx_file/walk.h"
#include "annotator/origin/keys/runtime.h"
#include "annotator/placement/device.h"
#include "annotator/view/module_globs.h"
#include "schema/element_count.h"

namespace whence::placement {

using metadata::Attribution;
using onnx_file::GraphIndex;
using onnx_file::OnnxNode;
using onnx_file::OnnxSummary;
using onnx_file::OnnxTensor;

namespace {

// Returns the bits of an element by onnx::TensorProto::DataType; 0 for strings and unknown types.
std::int64_t element_bits(int data_type) {
  static const std::map<int, std::int64_t> bits = {
      {1, 32},  {2, 8},   {3, 8},   {4, 16},  {5, 16},   {6, 32},  {7, 64}, {9, 8},  {10, 16},
      {11, 64}, {12, 32}, {13, 64}, {14, 64}, {15, 128}, {16, 16}, {17, 8}, {18, 8}, {19, 8},
      {20, 8},  {21, 4},  {22, 4},  {23, 4},  {24, 8},   {25, 2},  {26, 2}};
  const auto known = bits.find(data_type);
  return known == bits.end() ? 0 : known->second;
}

std::int64_t bytes_of(const OnnxTensor& tensor) {
  const std::int64_t elements = element_count(tensor.dims);
  const std::int64_t bits = element_bits(tensor.data_type);
  return bits >= 8 ? elements * (bits / 8) : (elements * bits + 7) / 8;
}

std::vector<Attribution> attributions_of(const std::vector<const OnnxNode*>& nodes,
                                         const metadata::Recorded* recorded) {
  std::vector<Attribution> attributions;
  for (const OnnxNode* node : nodes) attributions.push_back(metadata::attribution_of(*node, recorded));
  return attributions;
}

// Applies the rules in order.
class Rules {
 public:
  Rules(const std::vector<Rule>& rules, const std::set<std::string>& modules) : rules_(rules) {
    for (const Rule& rule : rules) globs_.emplace_back(std::vector{rule.glob}, modules, "place");
    used_.resize(rules.size());
  }

  // Returns the device of a node by the first rule that matches the module of its main operation, or else one of its
  // modules; nullopt if no rule matches.
  std::optional<std::string> device_of(const Attribution& of, std::int64_t& of_several) {
    std::optional<std::size_t> first;
    const auto find_first = [&](auto&& matches) {
      for (std::size_t i = 0; i < rules_.size() && !first; ++i) {
        if (matches(globs_[i])) first = i;
      }
    };
    if (of.attributed()) find_first([&](view::ModuleGlobs& globs) { return globs.hold(of.primary); });
    find_first([&](view::ModuleGlobs& globs) { return globs.hold_any(of); });
    if (!first) return std::nullopt;
    bool differ = false;
    for (const std::string& module : of.modules) {
      if (of.modules.size() > 1) differ |= device_of_module(module) != rules_[*first].device;
    }
    of_several += differ ? 1 : 0;
    used_[*first] = true;
    return rules_[*first].device;
  }

  void require_all_used() const {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (used_[i]) continue;
      throw Error(Code::usage,
                  "the rule '" + rules_[i].device + "=" + rules_[i].glob +
                      "' places no node: earlier rules match all its nodes, or it has none",
                  "the first matching rule decides; pass the narrower rule first", {.stage = "place"});
    }
  }

 private:
  std::string device_of_module(const std::string& module) {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (globs_[i].hold(module)) return rules_[i].device;
    }
    return "";
  }

  const std::vector<Rule>& rules_;
  std::vector<view::ModuleGlobs> globs_;
  std::vector<bool> used_;
};

std::string described(const OnnxNode& node, const Attribution& of) {
  const std::string name = node.name.empty() ? "a " + std::string(node.op_type) : "'" + std::string(node.name) + "'";
  return name +
         (of.attributed() ? " of " + (of.primary.empty() ? "the root" : of.primary) : ", whose module is unknown");
}

DeviceShare& share_of(Placement& placement, const std::string& device) {
  const auto known = std::ranges::find(placement.shares, device, &DeviceShare::device);
  if (known != placement.shares.end()) return *known;
  return placement.shares.emplace_back(DeviceShare{.device = device, .microseconds = {}});
}

void count_weights(const OnnxSummary& model, const std::vector<const OnnxNode*>& nodes, Placement& placement) {
  std::map<std::string_view, std::int64_t> sizes;
  onnx_file::walk_graphs(model.graph, [&](const onnx_file::OnnxGraph& graph) {
    for (const OnnxTensor& tensor : graph.initializers) sizes.emplace(tensor.name, bytes_of(tensor));
  });
  std::set<std::pair<std::string_view, std::string_view>> counted;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string_view input : nodes[i]->inputs) {
      const auto weight = sizes.find(input);
      if (weight == sizes.end() || !counted.emplace(placement.devices[i], input).second) continue;
      DeviceShare& share = share_of(placement, placement.devices[i]);
      ++share.weights;
      share.weight_bytes = saturated_sum(share.weight_bytes, weight->second);
    }
  }
}

void count_crossings(const OnnxSummary& model, Placement& placement) {
  std::map<std::pair<std::string_view, std::string_view>, std::set<std::string_view>> crossing;
  for (const GraphIndex::Edge& edge : GraphIndex(model.graph).edges()) {
    if (edge.from < 0 || edge.to < 0) continue;
    const std::string& from = placement.devices[static_cast<std::size_t>(edge.from)];
    const std::string& to = placement.devices[static_cast<std::size_t>(edge.to)];
    if (from != to) crossing[{from, to}].insert(edge.value);
  }
  for (const auto& [pair, values] : crossing) {
    placement.crossings.push_back(
        {std::string(pair.first), std::string(pair.second), static_cast<std::int64_t>(values.size())});
  }
}

// Writes only exact rules: a prefix rule "gpu" would also match "gpu:1", and outranks exact rules.
std::string settings_of(const Placement& placement) {
  std::string settings;
  for (const DeviceShare& share : placement.shares) {
    if (share.device != no_device)
      settings += (settings.empty() ? "" : "; ") + share.device + "(=" + share.device + ")";
  }
  return settings;
}

void fill(const OnnxSummary& model, const std::vector<const OnnxNode*>& nodes, Placement& placement) {
  for (const std::string& device : placement.devices) ++share_of(placement, device).nodes;
  std::erase_if(placement.shares, [](const DeviceShare& share) { return share.nodes == 0; });
  count_weights(model, nodes, placement);
  count_crossings(model, placement);
  placement.settings = settings_of(placement);
}

}  // namespace

Rule parse_rule(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(Code::usage, "'" + text + "' is not a rule", "use a device and a glob: gpu=encoder.**",
                {.stage = "command line"});
  }
  Rule rule{text.substr(0, equals), text.substr(equals + 1)};
  require_device(rule.device);
  return rule;
}

Placement place_nodes(const OnnxSummary& model, const std::vector<Rule>& rules, const std::string& otherwise,
                      const metadata::Recorded* recorded) {
  if (!otherwise.empty() && otherwise != no_device) require_device(otherwise);
  const std::vector<const OnnxNode*> nodes = onnx_file::all_nodes(model.graph);
  const std::vector<Attribution> attributions = attributions_of(nodes, recorded);
  Rules by_rule(rules, view::modules_of(attributions, "place"));
  Placement placement;
  for (const Rule& rule : rules) share_of(placement, rule.device);
  std::string first_without;
  std::int64_t without = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto device = by_rule.device_of(attributions[i], placement.of_several);
    if (!device && ++without == 1) first_without = described(*nodes[i], attributions[i]);
    placement.devices.push_back(device.value_or(otherwise));
    placement.modules.push_back(attributions[i].primary);
  }
  by_rule.require_all_used();
  if (without > 0 && otherwise.empty()) {
    throw Error(
        Code::usage,
        std::to_string(without) + " of " + std::to_string(nodes.size()) + " nodes have no device: " + first_without,
        "add --rule 'cpu=**' as the last rule, or --default cpu, which also applies to nodes without a module; "
        "--default none leaves them to ONNX Runtime",
        {.file = model.file->path(), .stage = "place"});
  }
  fill(model, nodes, placement);
  return placement;
}

Placement placement_in(const OnnxSummary& model, const metadata::Recorded* recorded) {
  const std::vector<const OnnxNode*> nodes = onnx_file::all_nodes(model.graph);
  Placement placement;
  bool any = false;
  for (const OnnxNode* node : nodes) {
    const auto device = node->metadata.find(origin::keys::layer_annotation);
    any |= device.has_value();
    placement.devices.emplace_back(device.value_or(no_device));
    placement.modules.push_back(metadata::attribution_of(*node, recorded).primary);
  }
  if (!any) {
    throw Error(Code::usage, "no node of the file has a device, and no rule was specified",
                "pass --rule 'gpu=encoder.**'", {.file = model.file->path(), .stage = "place"});
  }
  fill(model, nodes, placement);
  return placement;
}

}  // namespace whence::placement
