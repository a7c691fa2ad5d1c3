#include "annotator/functions/instances.h"

#include <algorithm>

#include "annotator/functions/node_values.h"
#include "annotator/metadata/attribution.h"
#include "annotator/metadata/call_path.h"
#include "annotator/origin/keys/origin.h"
#include "schema/module_path.h"

namespace whence::functions {

namespace keys = origin::keys;
using metadata::CalledModule;
using onnx_file::OnnxNode;

namespace {

// Returns the node's module if PyTorch's keys, which optimisers copy from node to node, end with another module;
// nullopt if the keys are right.
std::optional<std::string> corrected_module(const OnnxNode& node, const std::vector<CalledModule>& steps) {
  std::optional<std::string> module;
  if (const auto stated = onnx_file::find_property(node.metadata, keys::module)) {
    module = std::string(*stated);
  } else if (metadata::Attribution read = metadata::attribution_of(node, nullptr); read.by_exporter) {
    module = std::move(read.module);
  }
  return module && (steps.empty() || steps.back().path != *module) ? module : std::nullopt;
}

// The calls that lead to each module, as first stated; by qualified name.
using CallPaths = std::map<std::string, std::vector<CalledModule>, std::less<>>;

// Returns the calls that lead to a module, as far as other nodes state them. Completes them by the segments of its
// name, some of which may be modules that are never called.
std::vector<CalledModule> call_path_to(const std::string& module, const CallPaths& call_paths) {
  std::vector<CalledModule> added;
  for (std::string path = module;; path.resize(module_around(path).size())) {
    if (const auto stated = call_paths.find(path); stated != call_paths.end()) {
      std::vector<CalledModule> steps = stated->second;
      steps.insert(steps.end(), added.rbegin(), added.rend());
      return steps;
    }
    added.push_back({.path = path});
    if (path.empty()) return {added.rbegin(), added.rend()};
  }
}

// Collects the call paths that nodes state, except nodes with keys that end with another module.
CallPaths stated_call_paths(const std::vector<const OnnxNode*>& nodes) {
  CallPaths call_paths;
  for (const OnnxNode* node : nodes) {
    const std::vector<CalledModule> steps = metadata::stated_modules(*node);
    if (corrected_module(*node, steps)) continue;
    std::vector<CalledModule> call_path;
    for (const CalledModule& step : steps) {
      call_path.push_back(step);
      call_paths.try_emplace(step.path, call_path);
    }
  }
  return call_paths;
}

}  // namespace

Instances::Instances(const std::vector<const OnnxNode*>& nodes) {
  std::optional<CallPaths> call_paths;  // read when the first node needs them
  node_calls_.reserve(nodes.size());
  for (const OnnxNode* node : nodes) {
    const onnx_file::OnnxProperties entries = node->metadata;
    std::vector<CalledModule> steps = metadata::stated_modules(*node);
    if (const auto module = corrected_module(*node, steps)) {
      if (!call_paths) call_paths = stated_call_paths(nodes);
      steps = call_path_to(*module, *call_paths);
    }
    if (onnx_file::find_property(entries, keys::confidence) == "unattributed") steps.clear();
    metadata::set_call_numbers(entries, steps);
    CallIndex id;
    for (const CalledModule& step : steps) id = child(id, step.path, step.call, step.type);
    node_calls_.push_back(id);
  }
  fill_types();
}

// Sets the unknown class of a call to the class that another call of the same module has.
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
