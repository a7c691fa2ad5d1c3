// An explanation as text for people and as JSON for machines (schema/explain.schema.json).
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "annotator/origin/keys/functions.h"
#include "annotator/view/explanation.h"
#include "annotator/view/tree_text.h"
#include "schema/json_text.h"
#include "schema/module_path.h"

namespace whence::view {

using origin::Confidence;
using text::Align;
using text::Cell;
using text::Palette;
namespace keys = origin::keys;
using metadata::Attribution;
using metadata::CalledModule;

namespace {

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

// Returns a module and its ancestors, the root first.
std::vector<std::string> enclosing(const std::string& module) {
  std::vector<std::string> paths = {""};
  for (std::size_t dot = module.find('.'); dot != std::string::npos; dot = module.find('.', dot + 1)) {
    paths.push_back(module.substr(0, dot));
  }
  if (!module.empty()) paths.push_back(module);
  return paths;
}

// Prints the modules of the node and their ancestors.
std::string tree_text(const Explanation& explanation, const Palette& palette) {
  const Attribution& attribution = explanation.attribution;
  std::map<std::string, const CalledModule*> calls;
  for (const ExplainedOperation& operation : explanation.operations) {
    for (const CalledModule& call : operation.scope) calls.emplace(call.path, &call);
  }
  std::set<std::string> shown;
  ModuleTable table(palette, {{"type", Align::left}, {"call", Align::right}}, "  ");
  for (const std::string& module : attribution.modules) {
    for (const std::string& path : enclosing(module)) {
      if (!shown.insert(path).second) continue;
      const auto call = calls.find(path);
      const bool recorded = call != calls.end();
      const bool has_type = path == attribution.primary, has_call = path == attribution.module;
      const std::string type = recorded ? call->second->type : has_type ? explanation.module_type : "";
      const std::string number = recorded ? std::to_string(call->second->call) : has_call ? attribution.call : "";
      table.module(path, {Cell(last_segment(type), palette.dim), number}, path == module ? palette.bold : "");
    }
  }
  return table.text() + "\n";
}

std::string call_text(const CalledModule& call) {
  const std::string number = call.call > 0 ? ", call " + std::to_string(call.call) : "";
  return call.path + " (" + last_segment(call.type) + number + ")";
}

std::string_view style_of(Confidence confidence, const Palette& palette) {
  if (confidence == Confidence::unattributed) return palette.red;
  return confidence == Confidence::ancestor || confidence == Confidence::inferred ? palette.yellow : palette.green;
}

void add_operation(text::Table& table, const ExplainedOperation& operation) {
  table.row({"operation", std::to_string(operation.index) + "  " + operation.op});
  for (const CalledModule& call : operation.scope) table.row({"", "in " + call_text(call)});
  for (const std::string& frame : operation.source) table.row({"", "at " + frame});
}

}  // namespace

std::string to_text(const Explanation& explanation, const Palette& palette) {
  const Attribution& attribution = explanation.attribution;
  std::string text = std::string(palette.bold) + printable(explanation.node.empty() ? "(no name)" : explanation.node) +
                     std::string(palette.reset) + "\n";
  if (attribution.attributed()) text += tree_text(explanation, palette);
  text::Table table(palette, {Align::left, Align::left}, "  ");
  table.row({"operator", (explanation.domain.empty() ? "" : explanation.domain + "::") + explanation.op_type});
  if (attribution.attributed()) {
    table.row({"module", Cell(shown_path(attribution.primary), palette.bold)});
    if (!explanation.module_type.empty()) table.row({"type", explanation.module_type});
    if (!attribution.call.empty()) {
      const bool of_primary = attribution.primary == attribution.module;
      table.row({"call", attribution.call + (of_primary ? "" : " of " + shown_path(attribution.module))});
    }
    if (attribution.modules.size() > 1) {
      for (const std::string& module : attribution.modules) table.row({"stands for", shown_path(module)});
    }
    if (!attribution.source.empty()) table.row({"source", attribution.source});
    if (!explanation.file.empty()) table.row({"file", explanation.file});
  }
  table.row({"confidence",
             Cell(std::string(origin::name_of(attribution.confidence)), style_of(attribution.confidence, palette))});
  table.row({"because", explanation.reason});
  for (const ExplainedOperation& operation : explanation.operations) add_operation(table, operation);
  table.row({"inputs", joined(explanation.inputs, ", ")});
  table.row({"outputs", joined(explanation.outputs, ", ")});
  for (const auto& [key, value] : explanation.evidence) {
    // On a call, this key holds the differences between the metadata of its nodes and the function's (`whence inline`).
    const std::string text = key == keys::differs ? std::to_string(value.size()) + " bytes" : value;
    table.row({"key", Cell(key + " = " + text, palette.dim)});
  }
  return text + table.text();
}

std::string to_json(const Explanation& explanation) {
  using nlohmann::ordered_json;
  const Attribution& attribution = explanation.attribution;
  const bool known = attribution.attributed();
  ordered_json json = {{"node", explanation.node},       {"op_type", explanation.op_type},
                       {"domain", explanation.domain},   {"inputs", explanation.inputs},
                       {"outputs", explanation.outputs}, {"confidence", origin::name_of(attribution.confidence)}};
  json["module"] = known ? ordered_json(attribution.module) : ordered_json();
  json["modules"] = attribution.modules;
  json["primary"] = known ? ordered_json(attribution.primary) : ordered_json();
  json["type"] = or_null(explanation.module_type);
  json["call"] = or_null(attribution.call);
  json["rule"] = or_null(attribution.rule);
  json["source"] = or_null(attribution.source);
  json["file"] = or_null(explanation.file);
  json["reason"] = explanation.reason;
  auto operations = ordered_json::array();
  for (const ExplainedOperation& operation : explanation.operations) {
    auto scope = ordered_json::array();
    for (const CalledModule& call : operation.scope) {
      scope.push_back({{"module", call.path}, {"type", call.type}, {"call", call.call}});
    }
    operations.push_back(
        {{"index", operation.index}, {"op", operation.op}, {"scope", scope}, {"source", operation.source}});
  }
  json["operations"] = std::move(operations);
  auto evidence = ordered_json::array();  // a list, because a key may occur twice
  for (const auto& [key, value] : explanation.evidence) evidence.push_back({{"key", key}, {"value", value}});
  json["evidence"] = std::move(evidence);
  return json_text(json, 2);
}

}  // namespace whence::view
