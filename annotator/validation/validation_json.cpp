// The complete validation report as JSON (schema/validate.schema.json).
#include <nlohmann/json.hpp>

#include "annotator/validation/problems.h"
#include "annotator/validation/validation_text.h"
#include "schema/json_text.h"

namespace whence::validation {

using origin::confidence_count;
using origin::name_of;

namespace {

nlohmann::ordered_json counts_json(const origin::Counts& counts) {
  nlohmann::ordered_json json = {{"nodes", counts.total()}};
  for (std::size_t i = 0; i < confidence_count; ++i)
    json[std::string(name_of(static_cast<origin::Confidence>(i)))] = counts.by[i];
  json["covered"] = counts.covered();
  return json;
}

nlohmann::ordered_json finding_json(const Finding& finding) {
  auto items = nlohmann::ordered_json::array();
  for (const FindingItem& item : finding.items) items.push_back({{"subject", item.subject}, {"detail", item.detail}});
  return {{"code", finding.check->code},       {"name", finding.check->name},     {"severity", finding.check->level()},
          {"summary", finding.check->summary}, {"remedy", finding.check->remedy}, {"allowed", finding.allowed},
          {"count", finding.items.size()},     {"items", std::move(items)}};
}

nlohmann::ordered_json naming_json(const NamingCounts& counts) {
  nlohmann::ordered_json json;
  for (std::size_t i = 0; i < naming_count; ++i) json[std::string(name_of(static_cast<Naming>(i)))] = counts[i];
  return json;
}

nlohmann::ordered_json naming_json(const NamingReport& naming, bool has_sidecar) {
  nlohmann::ordered_json json = naming_json(naming.counts);
  json["named_modules"] = naming.named_modules;
  json["ambiguous"] = has_sidecar ? nlohmann::ordered_json(naming.ambiguous) : nlohmann::ordered_json();
  json["classes"] = nlohmann::ordered_json::array();
  for (const ClassNode& node : naming.classes) {
    json["classes"].push_back(
        {{"node", node.node},
         {"class", node.type},
         {"instances", has_sidecar ? nlohmann::ordered_json(node.instances) : nlohmann::ordered_json()}});
  }
  return json;
}

nlohmann::ordered_json baseline_json(const Baseline& baseline) {
  return {{"file", baseline.file},
          {"coverage", counts_json(baseline.all)},
          {"naming", baseline.naming ? naming_json(*baseline.naming) : nlohmann::ordered_json()}};
}

nlohmann::ordered_json module_json(const ModuleHierarchy& module) {
  nlohmann::ordered_json json = {{"path", module.path},
                                 {"type", module.type},
                                 {"calls", module.calls},
                                 {"nodes", module.nodes},
                                 {"operations", module.recorded()}};
  for (std::size_t i = 0; i < fate_count; ++i) json[std::string(name_of(static_cast<Fate>(i)))] = module.operations[i];
  json["parameters"] = module.recorded_parameters();
  json["parameters_arrived"] = module.kept_parameters();
  json["parameters_merged"] = module.merged_parameters();
  json["parameters_unused"] = module[Arrival::unused];
  json["parameters_missing"] = module[Arrival::missing];
  return json;
}

nlohmann::ordered_json hierarchy_json(const Hierarchy& hierarchy) {
  using nlohmann::ordered_json;
  ordered_json json = {{"belongs", hierarchy.belongs}};
  auto modules = ordered_json::array(), lost = ordered_json::array(), parameters = ordered_json::array();
  for (const ModuleHierarchy& module : hierarchy.modules.rows) modules.push_back(module_json(module));
  for (const LostOperation& operation : hierarchy.lost) {
    lost.push_back({{"index", operation.index},
                    {"op", operation.op},
                    {"module", operation.module},
                    {"call", operation.call},
                    {"fate", name_of(operation.fate)},
                    {"reason", or_null(name_of(operation.reason))}});
  }
  for (const FoundParameter& parameter : hierarchy.parameters) {
    parameters.push_back({{"name", parameter.name},
                          {"form", parameter.form},
                          {"arrived", arrived(parameter.arrival)},
                          {"how", name_of(parameter.arrival)},
                          {"initializer", or_null(parameter.initializer)}});
  }
  json["modules"] = std::move(modules);
  json["operations_without_own_node"] = std::move(lost);
  json["parameters"] = std::move(parameters);
  return json;
}

}  // namespace

std::string to_json(const Validation& validation) {
  using nlohmann::ordered_json;
  const Coverage& coverage = validation.coverage;
  ordered_json json = {
      {"file", validation.file}, {"clean", validation.clean()}, {"coverage", counts_json(coverage.all)}};
  auto modules = ordered_json::array(), operators = ordered_json::array(), unattributed = ordered_json::array();
  for (const auto& [path, counts] : coverage.modules) {
    ordered_json row = {{"path", path}};
    row.update(counts_json(counts));
    modules.push_back(std::move(row));
  }
  for (const auto& [type, counts] : coverage.operators) {
    ordered_json row = {{"op_type", type}};
    row.update(counts_json(counts));
    operators.push_back(std::move(row));
  }
  for (const auto& [node, type] : coverage.unattributed) unattributed.push_back({{"node", node}, {"op_type", type}});
  json["modules"] = std::move(modules);
  json["operators"] = std::move(operators);
  json["nodes_without_module"] = std::move(unattributed);
  json["modules_without_node"] = ordered_json();
  if (validation.has_sidecar) {
    json["modules_without_node"] = ordered_json::array();
    for (const SilentModule& module : validation.silent) {
      json["modules_without_node"].push_back({{"path", module.path},
                                              {"type", module.type},
                                              {"reason", name_of(module.silence)},
                                              {"operations", module.operations}});
    }
  }
  json["hierarchy"] = validation.hierarchy ? hierarchy_json(*validation.hierarchy) : ordered_json();
  json["naming"] = naming_json(validation.naming, validation.has_sidecar);
  json["baseline"] = validation.baseline ? baseline_json(*validation.baseline) : ordered_json();
  auto checks = ordered_json::array(), findings = ordered_json::array(), shortfalls = ordered_json::array();
  for (const Check* check : validation.checks) checks.push_back(check->code);
  for (const Finding& finding : validation.findings) findings.push_back(finding_json(finding));
  for (const Shortfall& shortfall : validation.shortfalls) {
    shortfalls.push_back({{"code", shortfall.rule->code},
                          {"subject", shortfall.subject},
                          {"what", shortfall.measure},
                          {"minimum", shortfall.minimum},
                          {"reached", shortfall.reached},
                          {"nodes", shortfall.nodes ? ordered_json(*shortfall.nodes) : ordered_json()},
                          {"modules", shortfall.modules},
                          {"message", shortfall.message},
                          {"allowed", shortfall.allowed}});
  }
  json["checks"] = std::move(checks);
  json["findings"] = std::move(findings);
  json["shortfalls"] = std::move(shortfalls);
  return json_text(json, 2);
}

}  // namespace whence::validation
