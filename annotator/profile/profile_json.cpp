// Writes a profile by module as JSON (schema/profile.schema.json). Amounts are integer sums over all runs, so that they
// add up exactly.
#include <nlohmann/json.hpp>

#include "annotator/profile/module_profile.h"
#include "schema/json_text.h"

namespace whence::profile {

namespace {

using Json = nlohmann::ordered_json;

Json share_number(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

void add_memory(const std::optional<LayerMemory>& memory, Json& to) {
  if (!memory) return;
  to["memory"] = {{"inputs", memory->inputs},
                  {"parameters", memory->parameters},
                  {"outputs", memory->outputs},
                  {"temporary", memory->temporary},
                  {"peak", memory->peak ? Json(*memory->peak) : Json()}};
}

Json module_json(const ModuleProfile& profile, std::size_t row, Json calls) {
  const view::ModuleRow& module = profile.tree.rows[row];
  const ModuleAmount& amount = profile.amounts[row];
  Json json = {{"path", module.path},
               {"type", or_null(module.type)},
               {"own", amount.own},
               {"total", amount.total},
               {"share", share_number(amount.total, profile.amount)},
               {"calls", std::move(calls)},
               {"at_most", amount.at_most}};
  if (profile.wall) json["wall"] = amount.wall;
  if (!amount.providers.empty()) json["providers"] = amount.providers;
  add_memory(amount.memory, json);
  return json;
}

Json modules_json(const ModuleProfile& profile) {
  Json modules = Json::array();
  for (std::size_t i = 0; i < profile.tree.rows.size(); ++i) {
    Json calls = Json::array();
    for (const CallAmount& call : profile.calls_of(i)) calls.push_back({{"call", call.call}, {"own", call.amount}});
    modules.push_back(module_json(profile, i, std::move(calls)));
  }
  return modules;
}

Json layer_json(const ModuleProfile& profile, const ProfiledLayer& layer) {
  const LayerModules& modules = layer.modules;
  Json json = {{"name", layer.runtime_layer.name},
               {"op_type", layer.runtime_layer.op_type},
               {"provider", layer.runtime_layer.provider},
               {"count", layer.runtime_layer.count},
               {"time", layer.runtime_layer.amount},
               {"module", modules.row ? Json(profile.tree.rows[*modules.row].path) : Json()},
               {"call", or_null(modules.call)},
               {"rule", name_of(modules.rule)}};
  if (const HeldNodes& holds = layer.runtime_layer.holds; !holds.names.empty() || !holds.regions.empty()) {
    json["holds"] = layer.runtime_layer.holds.names;
    for (const auto& [first, last] : layer.runtime_layer.holds.regions) json["holds"].push_back(first + "..." + last);
  }
  if (!modules.parts.empty()) {
    json["parts"] = Json::array();
    for (const std::size_t row : modules.parts) json["parts"].push_back(profile.tree.rows[row].path);
  }
  add_memory(layer.runtime_layer.memory, json);
  return json;
}

}  // namespace

std::string to_json(const ModuleProfile& profile) {
  Json layers = Json::array();
  for (const ProfiledLayer& layer : profile.layers) layers.push_back(layer_json(profile, layer));
  Json json = {{"file", profile.file},           {"profile", profile.profile},
               {"source", profile.source},       {"unit", name_of(profile.unit)},
               {"runs", profile.runs},           {"warmup_runs", profile.warmup_runs},
               {"averaged", profile.averaged},   {"run_time", profile.run_amount ? Json(*profile.run_amount) : Json()},
               {"operator_time", profile.amount}};
  if (profile.wall) json["operator_wall"] = *profile.wall;
  json["unattributed"] = profile.unattributed;
  json["modules"] = modules_json(profile);
  json["nodes"] = std::move(layers);
  return json_text(json, 2) + "\n";
}

}  // namespace whence::profile
