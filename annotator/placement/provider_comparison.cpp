// Compares placements with the list of providers that a session of ONNX Runtime chose.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "annotator/metadata/node_names.h"
#include "annotator/placement/device.h"
#include "annotator/placement/placement.h"
#include "schema/files/files.h"

namespace whence::placement {

namespace {

using Providers = std::map<std::string, std::set<std::string>, std::less<>>;  // by name of the node

constexpr const char* providers_remedy =
    "pass the list that the code in docs/dialects.md writes: [{\"provider\": \"...\", \"nodes\": [{\"name\": "
    "\"...\"}]}]";

Providers read_providers(const std::string& path) {
  const Place place{.file = path, .stage = "read"};
  const auto file = MappedFile::open(path);
  const auto json = nlohmann::json::parse(file->text(), nullptr, /*allow_exceptions=*/false);
  const auto refuse = [&](const std::string& what) { throw Error(Code::wrong_kind, what, providers_remedy, place); };
  if (!json.is_array()) refuse("the file is not a list of providers");
  const auto text_at = [](const nlohmann::json& object, const char* key) {
    const auto value = object.is_object() ? object.find(key) : object.end();
    return value != object.end() && value->is_string() ? value->get<std::string>() : std::string();
  };
  Providers providers;
  for (const nlohmann::json& part : json) {
    const std::string provider = text_at(part, "provider");
    if (provider.empty() || !part.contains("nodes") || !part["nodes"].is_array()) {
      refuse("an entry of the list has no provider or no nodes");
    }
    for (const nlohmann::json& node : part["nodes"]) {
      const std::string name = text_at(node, "name");
      if (!name.empty()) providers[name].insert(provider);
    }
  }
  if (providers.empty()) refuse("no node of the list has a name: session.record_ep_graph_assignment_info was not 1");
  return providers;
}

// Maps fused nodes back to nodes of the model: ONNX Runtime names them "<name>/MatMulAddFusion".
void add_fused_names(const std::vector<const onnx_file::OnnxNode*>& nodes, metadata::NameAge age,
                     Providers& providers) {
  std::set<std::string_view> names;
  for (const onnx_file::OnnxNode* node : nodes) names.insert(metadata::name_of(*node, age));
  Providers fused;
  for (const auto& [name, chosen] : providers) {
    const std::size_t slash = name.rfind('/');
    if (slash == std::string::npos || names.contains(name)) continue;
    const std::string before = name.substr(0, slash);
    if (names.contains(before) && !providers.contains(before)) fused[before].insert(chosen.begin(), chosen.end());
  }
  providers.merge(fused);
}

}  // namespace

Comparison compare_with_providers(const onnx_file::OnnxSummary& model, const Placement& placement,
                                  const std::string& path, Diagnostics& notes) {
  Providers providers = read_providers(path);
  const auto nodes = onnx_file::all_nodes(model.graph);
  std::vector<std::string> names;
  for (const auto& [name, chosen] : providers) names.push_back(name);
  const metadata::ListedNames listed = metadata::age_of_names(nodes, names);
  if (listed.ambiguous) notes.push_back(metadata::ambiguous_names(path));
  add_fused_names(nodes, listed.age, providers);
  Comparison comparison;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string_view name = metadata::name_of(*nodes[i], listed.age);
    const auto found = providers.find(name);
    if (name.empty() || found == providers.end()) {
      ++comparison.not_listed;
      continue;
    }
    const std::string& device = placement.devices[i];
    // Several nodes may have the name; one provider that serves the device is enough.
    const bool served = std::ranges::any_of(found->second, [&](const auto& each) { return serves(each, device); });
    if (served) {
      ++comparison.as_placed;
    } else {
      comparison.differences.push_back(
          {std::string(nodes[i]->name), placement.modules[i], device, *found->second.begin()});
    }
  }
  if (comparison.as_placed == 0 && comparison.differences.empty()) {
    throw Error(Code::sidecar_mismatch, "the list of providers names no node of the model",
                "pass the list from a session of this file", {.file = path, .stage = "place"});
  }
  return comparison;
}

}  // namespace whence::placement
