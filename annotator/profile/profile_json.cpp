// A profile by module for machines (schema/profile.schema.json). Times are microseconds of all runs together: integers,
// so that they add up.
#include <nlohmann/json.hpp>

#include "annotator/profile/module_profile.h"
#include "schema/json_text.h"

namespace whence::profile {

namespace {

using Json = nlohmann::ordered_json;

Json share_number(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

Json modules_json(const ModuleProfile& profile) {
  Json modules = Json::array();
  for (std::size_t i = 0; i < profile.tree.rows.size(); ++i) {
    const view::ModuleRow& row = profile.tree.rows[i];
    Json calls = Json::array();
    for (const CallTime& call : profile.calls) {
      if (call.row == i) calls.push_back({{"call", call.call}, {"own", call.microseconds}});
    }
    modules.push_back({{"path", row.path},
                       {"type", or_null(row.type)},
                       {"own", profile.times[i].own},
                       {"total", profile.times[i].total},
                       {"share", share_number(profile.times[i].total, profile.microseconds)},
                       {"calls", std::move(calls)}});
  }
  return modules;
}

Json node_json(const ModuleProfile& profile, const ProfiledNode& node) {
  return {{"name", node.ran.name},         {"op_type", node.ran.op_type},
          {"provider", node.ran.provider}, {"count", node.ran.count},
          {"time", node.ran.microseconds}, {"module", node.row ? Json(profile.tree.rows[*node.row].path) : Json()},
          {"call", or_null(node.call)},    {"rule", name_of(node.rule)}};
}

}  // namespace

std::string to_json(const ModuleProfile& profile) {
  Json nodes = Json::array();
  for (const ProfiledNode& node : profile.nodes) nodes.push_back(node_json(profile, node));
  const Json json = {{"file", profile.file},
                     {"profile", profile.profile},
                     {"unit", "microseconds"},
                     {"runs", profile.runs},
                     {"run_time", profile.run_microseconds},
                     {"operator_time", profile.microseconds},
                     {"unattributed", profile.unattributed},
                     {"modules", modules_json(profile)},
                     {"nodes", std::move(nodes)}};
  return json_text(json, 2) + "\n";
}

}  // namespace whence::profile
