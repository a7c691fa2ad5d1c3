#include "annotator/functions/instances.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "annotator/functions/node_values.h"
#include "annotator/origin/keys.h"
#include "annotator/text/python_list.h"
#include "schema/module_path.h"

namespace whence::functions {

namespace keys = origin::keys;
using onnx_file::OnnxNode;

namespace {

// One step on the way from the root to the call that a node belongs to.
struct Step {
  std::string path, type;
  int call = 0;
};

int number(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "0/2/2": calls of the modules on the path. Without the key, no module above was called twice. Numbers of another path
// say nothing of this one.
void set_calls(const OnnxNode& node, std::vector<Step>& steps) {
  const std::string_view all = metadata_of(node, keys::calls);
  if (all.empty() || static_cast<std::size_t>(std::ranges::count(all, '/')) + 1 != steps.size()) {
    if (!steps.empty()) steps.back().call = number(metadata_of(node, keys::call));
    return;
  }
  std::string_view rest = all;
  for (Step& step : steps) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    step.call = number(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

// Returns the called modules as whence's key lists them, for nodes without PyTorch's keys.
std::vector<Step> steps_of_way(std::string_view text) {
  const auto names = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<Step> steps;
  for (const auto& name : names.is_array() ? names : nlohmann::json::array()) {
    if (!name.is_string()) return {};
    steps.push_back({name.get<std::string>(), {}});
  }
  return steps;
}

// The called modules, root first. In PyTorch's keys the last entry of each list is the operator.
std::vector<Step> steps_of_scopes(const OnnxNode& node) {
  if (const std::string_view way = metadata_of(node, keys::scopes); !way.empty()) return steps_of_way(way);
  const auto names = text::parse_python_list(metadata_of(node, keys::name_scopes));
  if (!names || names->size() < 2) return {};
  const auto classes = text::parse_python_list(metadata_of(node, keys::class_hierarchy));
  std::vector<Step> steps;
  for (std::size_t i = 0; i + 1 < names->size(); ++i) {
    steps.push_back({(*names)[i], classes && classes->size() == names->size() ? (*classes)[i] : std::string()});
  }
  return steps;
}

// The module that whence says, when it says one and the keys of PyTorch another: optimisers copy those from node to
// node. Nothing: the keys hold.
std::optional<std::string_view> corrected_module(const OnnxNode& node, const std::vector<Step>& steps) {
  const auto module = onnx_file::find_property(node.metadata, keys::module);
  return module && (steps.empty() || steps.back().path != *module) ? module : std::nullopt;
}

using Ways =
    std::map<std::string, std::vector<Step>, std::less<>>;  // module to the calls that lead to it, as first seen

// The way to a module as other nodes say it; what they do not say goes by names, where modules that are never called
// stand on the way, too.
std::vector<Step> way_to(const std::string& module, const Ways& ways) {
  std::vector<Step> added;
  for (std::string path = module;; path.resize(module_around(path).size())) {
    if (const auto known = ways.find(path); known != ways.end()) {
      std::vector<Step> steps = known->second;
      steps.insert(steps.end(), added.rbegin(), added.rend());
      return steps;
    }
    added.push_back({path, {}});
    if (path.empty()) return {added.rbegin(), added.rend()};
  }
}

// The ways that nodes state, where some node needs them: one whose keys name another module than whence does.
Ways stated_ways(const std::vector<const OnnxNode*>& nodes) {
  const bool needed = std::ranges::any_of(
      nodes, [](const OnnxNode* node) { return corrected_module(*node, steps_of_scopes(*node)).has_value(); });
  Ways ways;
  if (!needed) return ways;
  for (const OnnxNode* node : nodes) {
    const std::vector<Step> steps = steps_of_scopes(*node);
    if (corrected_module(*node, steps)) continue;
    std::vector<Step> way;
    for (const Step& step : steps) {
      way.push_back(step);
      ways.try_emplace(step.path, way);
    }
  }
  return ways;
}

}  // namespace

Instances::Instances(const std::vector<const OnnxNode*>& nodes) {
  const Ways ways = stated_ways(nodes);
  of_nodes_.reserve(nodes.size());
  for (const OnnxNode* node : nodes) {
    std::vector<Step> steps = steps_of_scopes(*node);
    if (const auto module = corrected_module(*node, steps)) steps = way_to(std::string(*module), ways);
    if (metadata_of(*node, keys::confidence) == "unattributed") steps.clear();
    set_calls(*node, steps);
    CallIndex id;
    for (const Step& step : steps) id = child(id, step.path, step.call, step.type);
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
