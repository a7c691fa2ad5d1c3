// Writes a profile as node data of Model Explorer (github.com/google-ai-edge/model-explorer, node_data_builder.py): a
// number for each node, coloured from the least to the most.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "annotator/profile/module_profile.h"
#include "schema/json_text.h"

namespace whence::profile {

namespace {

using Json = nlohmann::ordered_json;

std::string title(const ModuleProfile& profile, std::int64_t shown) {
  std::string text = profile.unit == Unit::microseconds ? "time in microseconds" : std::string(name_of(profile.unit));
  if (profile.runs > 1) text += ", average of " + std::to_string(profile.runs) + " runs";
  if (shown == profile.amount || profile.amount == 0) return text;
  const double percent = 100.0 * static_cast<double>(shown) / static_cast<double>(profile.amount);
  const auto tenths = static_cast<std::int64_t>(std::floor(percent * 10));
  return text + " (" + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) +
         " % of the total; the rest belongs to no single node)";
}

}  // namespace

std::string to_node_data(const ModuleProfile& profile) {
  std::map<std::string, std::int64_t> amounts;
  std::int64_t shown = 0;
  for (const ProfiledLayer& layer : profile.layers) {
    if (layer.node.empty()) continue;
    amounts[layer.node] += layer.runtime_layer.amount;
    shown += layer.runtime_layer.amount;
  }
  const auto runs = static_cast<double>(std::max<std::int64_t>(profile.averaged ? 1 : profile.runs, 1));
  Json results = Json::object();
  for (const auto& [node, amount] : amounts) {
    results[node] = {{"value", std::round(static_cast<double>(amount) / runs * 1000) / 1000}};
  }
  const Json gradient = {{{"stop", 0}, {"bgColor", "#ffffff"}},
                         {{"stop", 0.2}, {"bgColor", "#fff3c4"}},
                         {{"stop", 1}, {"bgColor", "#e05c4b"}}};
  const Json data = {{profile.graph, {{"name", title(profile, shown)}, {"results", results}, {"gradient", gradient}}}};
  return json_text(data) + "\n";
}

}  // namespace whence::profile
