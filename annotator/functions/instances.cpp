#include "annotator/functions/instances.h"

#include <algorithm>

#include "annotator/functions/node_values.h"
#include "annotator/metadata/attribution.h"
#include "annotator/metadata/way.h"
#include "annotator/origin/keys/origin.h"
#include "schema/module_path.h"

namespace whence::functions {

namespace keys = origin::keys;
using metadata::CalledModule;
using onnx_file::OnnxNode;

namespace {

// The node's module, where it is another than PyTorch's keys list, which optimisers copy from node to node. Nothing:
// the keys hold.
std::optional<std::string> corrected_module(const OnnxNode& node, const std::vector<CalledModule>& steps) {
  std::optional<std::string> module;
  if (const auto stated = onnx_file::find_property(node.metadata, keys::module)) {
    module = std::string(*stated);
  } else if (metadata::Attribution read = metadata::attribution_of(node, nullptr); read.by_pytorch) {
    module = std::move(read.module);
  }
  return module && (steps.empty() || steps.back().path != *module) ? module : std::nullopt;
}

// By module the calls that lead to it, as first seen.
using Ways = std::map<std::string, std::vector<CalledModule>, std::less<>>;

// The way to a module as other nodes say it; what they do not say goes by names, where modules that are never called
// stand on the way, too.
std::vector<CalledModule> way_to(const std::string& module, const Ways& ways) {
  std::vector<CalledModule> added;
  for (std::string path = module;; path.resize(module_around(path).size())) {
    if (const auto known = ways.find(path); known != ways.end()) {
      std::vector<CalledModule> steps = known->second;
      steps.insert(steps.end(), added.rbegin(), added.rend());
      return steps;
    }
    added.push_back({.path = path});
    if (path.empty()) return {added.rbegin(), added.rend()};
  }
}

// The ways that nodes state, except those whose keys name another module than theirs.
Ways stated_ways(const std::vector<const OnnxNode*>& nodes) {
  Ways ways;
  for (const OnnxNode* node : nodes) {
    const std::vector<CalledModule> steps = metadata::stated_modules(node->metadata);
    if (corrected_module(*node, steps)) continue;
    std::vector<CalledModule> way;
    for (const CalledModule& step : steps) {
      way.push_back(step);
      ways.try_emplace(step.path, way);
    }
  }
  return ways;
}

}  // namespace

Instances::Instances(const std::vector<const OnnxNode*>& nodes) {
  std::optional<Ways> ways;  // read when the first node needs them
  of_nodes_.reserve(nodes.size());
  for (const OnnxNode* node : nodes) {
    const onnx_file::OnnxProperties entries = node->metadata;
    std::vector<CalledModule> steps = metadata::stated_modules(entries);
    if (const auto module = corrected_module(*node, steps)) {
      if (!ways) ways = stated_ways(nodes);
      steps = way_to(*module, *ways);
    }
    if (onnx_file::find_property(entries, keys::confidence) == "unattributed") steps.clear();
    metadata::set_calls(entries, steps);
    CallIndex id;
    for (const CalledModule& step : steps) id = child(id, step.path, step.call, step.type);
    of_nodes_.push_back(id);
  }
  fill_types();
}

// A call whose nodes do not say the class of its module is of the class that another call of it is.
void Instances::fill_types() {
  std::map<std::string_view, std::string_view> types;
  for (const ModuleCall& instance : *this) {
    if (!instance.type.empty()) types.emplace(instance.path, instance.type);
  }
  for (ModuleCall& instance : *this) {
    const auto type = types.find(instance.path);
    if (instance.type.empty() && type != types.end()) instance.type = type->second;
  }
}

CallIndex Instances::child(CallIndex parent, const std::string& path, int call, const std::string& type) {
  const int number = paths_.try_emplace(path, static_cast<int>(paths_.size())).first->second;
  const auto [entry, is_new] = children_.try_emplace({parent, number, call}, CallIndex(size()));
  if (is_new) {
    add({.parent = parent, .path = path, .call = call, .type = type});
  } else if ((*this)[entry->second].type.empty()) {
    (*this)[entry->second].type = type;
  }
  return entry->second;
}

bool Instances::is_module(std::string_view path) const { return paths_.contains(path); }

}  // namespace whence::functions
