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

struct Providers {
  std::map<std::string, std::set<std::string>, std::less<>> by_node;           // names of providers
  std::map<std::string, std::vector<ProviderDevice>, std::less<>> devices_of;  // by provider; those in the list
};

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
      if (!name.empty()) providers.by_node[name].insert(provider);
    }
    for (const nlohmann::json& device : part.value("devices", nlohmann::json::array())) {
      const auto id = device.is_object() ? device.find("vendor_id") : device.end();
      providers.devices_of[provider].push_back(
          {text_at(device, "type"), text_at(device, "vendor"),
           id != device.end() && id->is_number_integer() ? id->get<std::int64_t>() : 0});
    }
  }
  if (providers.by_node.empty())
    refuse("no node of the list has a name: session.record_ep_graph_assignment_info was not 1");
  return providers;
}

// Maps fused nodes back to nodes of the model: ONNX Runtime names them "<name>/MatMulAddFusion".
void add_fused_names(const std::vector<const onnx_file::OnnxNode*>& nodes, metadata::NameAge age,
                     Providers& providers) {
  std::set<std::string_view> names;
  for (const onnx_file::OnnxNode* node : nodes) names.insert(metadata::name_of(*node, age));
  decltype(Providers::by_node) fused;
  for (const auto& [name, chosen] : providers.by_node) {
    const std::size_t slash = name.rfind('/');
    if (slash == std::string::npos || names.contains(name)) continue;
    const std::string before = name.substr(0, slash);
    if (names.contains(before) && !providers.by_node.contains(before))
      fused[before].insert(chosen.begin(), chosen.end());
  }
  providers.by_node.merge(fused);
}

Served best_of(const std::set<std::string>& chosen, const Providers& providers, const std::string& device) {
  Served best = Served::no;
  for (const std::string& provider : chosen) {
    const auto listed = providers.devices_of.find(provider);
    const Served served =
        serves(provider, listed == providers.devices_of.end() ? std::vector<ProviderDevice>() : listed->second, device);
    if (served == Served::yes) return served;
    if (served == Served::unknown) best = served;
  }
  return best;
}

}  // namespace

Comparison compare_with_providers(const onnx_file::OnnxSummary& model, const Placement& placement,
                                  const std::string& path, Diagnostics& notes) {
  Providers providers = read_providers(path);
  const auto nodes = onnx_file::all_nodes(model.graph);
  std::vector<std::string> names;
  for (const auto& [name, chosen] : providers.by_node) names.push_back(name);
  const metadata::ListedNames listed = metadata::age_of_names(nodes, names);
  if (listed.ambiguous) notes.push_back(metadata::ambiguous_names(path));
  add_fused_names(nodes, listed.age, providers);
  Comparison comparison;
  std::set<std::string> unknown;  // providers
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string_view name = metadata::name_of(*nodes[i], listed.age);
    const auto found = providers.by_node.find(name);
    if (name.empty() || found == providers.by_node.end()) {
      ++comparison.not_listed;
      continue;
    }
    const std::string& device = placement.devices[i];
    // Several nodes may have the name; one provider that serves the device is enough.
    const Served served = best_of(found->second, providers, device);
    if (served == Served::yes) {
      ++comparison.as_placed;
    } else if (served == Served::unknown) {
      ++comparison.unknown_device;
      unknown.insert(*found->second.begin());
    } else {
      comparison.differences.push_back(
          {std::string(nodes[i]->name), placement.modules[i], device, *found->second.begin()});
    }
  }
  for (const std::string& provider : unknown) {
    notes.push_back(warning(Code::usage, "the devices of the provider '" + provider + "' are unknown",
                            "write the list with the code in docs/dialects.md, which states devices", {.file = path}));
  }
  if (comparison.as_placed == 0 && comparison.differences.empty() && comparison.unknown_device == 0) {
    throw Error(Code::sidecar_mismatch, "the list of providers names no node of the model",
                "pass the list from a session of this file", {.file = path, .stage = "place"});
  }
  return comparison;
}

}  // namespace whence::placement
