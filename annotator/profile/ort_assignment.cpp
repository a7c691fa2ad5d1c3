#include "annotator/profile/ort_assignment.h"

#include <algorithm>
#include <map>
#include <set>

#include "annotator/metadata/node_names.h"
#include "annotator/profile/ort_profile.h"

namespace whence::profile {
namespace {

bool is_assignment(const JsonValue& entry) {
  const auto nodes = entry.find("nodes");
  return !text_at(entry, "provider").empty() && nodes && nodes->is_array();
}

bool recognises_assignment(const ProfileInput& input) {
  return input.json && input.json->is_array() && input.json->size() > 0 &&
         std::ranges::all_of(elements(*input.json), is_assignment);
}

RuntimeProfile read_assignment(const ProfileInput& input, const ReadOptions&) {
  RuntimeProfile profile;
  profile.unit = Unit::nodes;
  profile.runs = 1;
  profile.averaged = true;
  for (const JsonValue entry : elements(*input.json)) {
    for (const JsonValue node : elements_at(entry, "nodes")) {
      profile.layers.push_back({.name = std::string(text_at(node, "name")),
                                .op_type = std::string(text_at(node, "op_type")),
                                .provider = std::string(text_at(entry, "provider")),
                                .count = 1,
                                .amount = 1});
    }
  }
  if (profile.layers.empty()) {
    throw Error(Code::wrong_kind, "no node of the file is assigned to a provider",
                "set session.record_ep_graph_assignment_info to 1", input.place);
  }
  return profile;
}

// The nodes that a provider took together.
struct Part {
  std::string_view provider;
  std::set<std::string_view> nodes = {};

  // Fusions before the assignment, and parts of nodes, have names that begin with a node's name.
  bool has(std::string_view name) const {
    return nodes.contains(name) ||
           !metadata::known_prefix(name, [&](std::string_view each) { return nodes.contains(each); }).empty();
  }
};

std::vector<Part> read_parts(const ProfileInput& input) {
  std::vector<Part> parts;
  for (const JsonValue entry : elements(*input.json)) {
    Part& part = parts.emplace_back(Part{text_at(entry, "provider")});
    for (const JsonValue node : elements_at(entry, "nodes")) {
      if (const std::string_view name = text_at(node, "name"); !name.empty()) part.nodes.insert(name);
    }
  }
  return parts;
}

// Returns, for each compiled operator, the numbers of the parts of its provider that its own parts name; all parts of
// the provider if none is named.
std::map<std::string_view, std::set<std::size_t>> parts_by_operator(const RuntimeProfile& profile,
                                                                    const std::vector<Part>& parts) {
  std::map<std::string_view, std::set<std::size_t>> named, all;
  for (const Layer& layer : profile.layers) {
    if (layer.compiled.empty()) continue;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].provider != layer.provider) continue;
      all[layer.compiled].insert(i);
      if (parts[i].has(layer.name)) named[layer.compiled].insert(i);
    }
  }
  named.merge(all);
  return named;
}

// Returns an entry for each layer of the list; only those of compiled operators have facts.
LayerNames read_assigned_nodes(const ProfileInput& input, const RuntimeProfile& profile) {
  const std::vector<Part> parts = read_parts(input);
  const auto by_operator = parts_by_operator(profile, parts);
  LayerNames facts;
  for (const Layer& layer : profile.layers) {
    if (layer.compiled.empty()) {
      if (std::ranges::any_of(parts, [&](const Part& part) { return part.has(layer.name); })) facts[layer.name];
      continue;
    }
    const auto found = by_operator.find(layer.compiled);
    if (found == by_operator.end()) continue;
    std::vector<std::string> nodes;
    for (const std::size_t i : found->second) nodes.insert(nodes.end(), parts[i].nodes.begin(), parts[i].nodes.end());
    HeldNodes& holds = facts[layer.name].holds;
    if (layer.compiled == layer.name) {
      holds.names = std::move(nodes);
    } else {
      holds.names = {layer.name};
      holds.within.insert(holds.within.end(), nodes.begin(), nodes.end());  // operators may have parts of one name
    }
  }
  return facts;
}

}  // namespace

const ProfileReader ort_assignment_reader = {"onnxruntime-providers", "list of ONNX Runtime's providers",
                                             recognises_assignment,   read_assignment,
                                             read_assigned_nodes,     ort_profile_reader.name};

}  // namespace whence::profile
