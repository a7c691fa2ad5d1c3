// A report as the data that its page reads (page/data.js). Columns rather than objects, and names by number, so that a
// file of ten thousand nodes stays quick to open.
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "annotator/report/report.h"
#include "annotator/view/explanation.h"
#include "annotator/view/operation_count.h"

namespace whence::report {

using origin::confidence_count;
using view::operation_formulas;

namespace {

using Json = nlohmann::ordered_json;

// Texts by number.
class Interned {
 public:
  std::size_t of(std::string_view text) {
    const auto [entry, is_new] = numbers_.try_emplace(std::string(text), texts_.size());
    if (is_new) texts_.push_back(text);
    return entry->second;
  }
  Json json() { return std::move(texts_); }

 private:
  std::unordered_map<std::string, std::size_t> numbers_;
  Json texts_ = Json::array();
};

// ASCII, so that no character of a foreign name reaches the page but through JSON.parse; and without '<', so that none
// ends the element that holds it.
std::string embedded(const Json& json) {
  const std::string text = json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// [arrived, fused, folded, eliminated, unknown] operations and [kept, merged, unused, missing] parameters by module of
// the sidecar.
std::unordered_map<std::string_view, Json> recorded_modules(const validation::Validation& validation) {
  std::unordered_map<std::string_view, Json> recorded;
  if (!validation.hierarchy || !validation.hierarchy->belongs) return recorded;
  for (const validation::ModuleHierarchy& module : validation.hierarchy->modules) {
    Json row = module.operations;
    row.insert(row.end(), {module.kept_parameters(), module.merged_parameters(), module[validation::Arrival::unused],
                           module[validation::Arrival::missing]});
    recorded.emplace(module.path, std::move(row));
  }
  return recorded;
}

Json modules_json(const Report& report) {
  std::unordered_map<std::string_view, std::string_view> silent;
  for (const validation::SilentModule& module : report.validation.silent)
    silent.emplace(module.path, validation::text_of(module.silence));
  const auto recorded = recorded_modules(report.validation);
  Json modules = Json::array();
  for (std::size_t i = 0; i < report.graph.tree.rows.size(); ++i) {
    const view::ModuleRow& row = report.graph.tree.rows[i];
    const ModuleFigures& figures = report.figures[i];
    const auto silence = silent.find(row.path);
    const auto fates = recorded.find(row.path);
    modules.push_back({{"path", row.path},
                       {"type", row.type},
                       {"parent", or_null(row.parent)},
                       {"aliases", row.aliases},
                       {"calls", or_null(row.calls)},
                       {"own", row.own},
                       {"total", row.total},
                       {"parameters", row.parameters},
                       {"trainable", or_null(row.trainable)},
                       {"operations", figures.operations},
                       {"uncounted", figures.uncounted},
                       {"coverage", figures.coverage.by},
                       {"recorded", fates == recorded.end() ? Json() : fates->second},
                       {"silent", silence == silent.end() ? "" : silence->second}});
  }
  return modules;
}

std::string operator_text(const onnx_file::OnnxNode& node) {
  return (node.domain.empty() ? "" : std::string(node.domain) + "::") + std::string(node.op_type);
}

Json nodes_json(const Report& report, Json& to) {
  Interned operators, sources;
  Json names = Json::array(), ops = names, rows = names, confidences = names, calls = names, lines = names;
  for (const view::PlacedNode& placed : report.graph.nodes) {
    names.push_back(placed.node->name);
    ops.push_back(operators.of(operator_text(*placed.node)));
    rows.push_back(or_null(placed.row));
    confidences.push_back(placed.attribution.confidence);
    calls.push_back(placed.attribution.call);
    lines.push_back(sources.of(placed.attribution.source));
  }
  Json counts = Json::array();
  for (const auto& count : report.operations) counts.push_back(or_null(count));
  to["operators"] = operators.json();
  to["sources"] = sources.json();
  return {{"name", names}, {"op", ops},       {"module", rows},      {"confidence", confidences},
          {"call", calls}, {"source", lines}, {"operations", counts}};
}

void add_edges(const Report& report, Json& to) {
  Interned values;
  Json edges = Json::array(), inputs = edges, outputs = edges, shapes = edges;
  for (const auto& edge : report.graph.index.edges()) {
    edges.insert(edges.end(), {edge.from, edge.to, values.of(edge.value)});
  }
  for (const auto& edge : report.graph.index.input_edges()) {
    inputs.insert(inputs.end(), {values.of(edge.value), edge.node});
  }
  for (const auto& edge : report.graph.index.output_edges()) {
    outputs.insert(outputs.end(), {edge.node, values.of(edge.value)});
  }
  to["values"] = values.json();
  for (const Json& value : to["values"]) {
    const auto shape = report.shapes.find(value.get_ref<const std::string&>());
    shapes.push_back(shape == report.shapes.end() ? "" : shape->second.text);
  }
  to["shapes"] = std::move(shapes);
  to["edges"] = std::move(edges);
  to["inputs"] = std::move(inputs);
  to["outputs"] = std::move(outputs);
}

Json findings_json(const validation::Validation& validation) {
  Json findings = Json::array();
  for (const validation::Finding& finding : validation.findings) {
    Json items = Json::array();
    for (const validation::FindingItem& item : finding.items) items.push_back({item.subject, item.detail});
    findings.push_back({{"code", finding.check->code},
                        {"name", finding.check->name},
                        {"severity", finding.check->severity == Severity::error ? "error" : "warning"},
                        {"summary", finding.check->summary},
                        {"remedy", finding.check->remedy},
                        {"why", finding.check->why},
                        {"items", std::move(items)}});
  }
  return findings;
}

Json node_evidence(const view::Explanation& explanation, Interned& texts) {
  Json modules = Json::array(), operations = modules, keys = modules;
  if (explanation.attribution.modules.size() > 1) {
    for (const std::string& module : explanation.attribution.modules) modules.push_back(texts.of(module));
  }
  for (const view::ExplainedOperation& operation : explanation.operations) {
    Json scope = Json::array(), source = scope;
    for (const view::ExplainedCall& call : operation.scope) {
      scope.push_back({texts.of(call.module), texts.of(call.type), call.call});
    }
    for (const std::string& frame : operation.source) source.push_back(texts.of(frame));
    operations.push_back({operation.index, texts.of(operation.op), std::move(scope), std::move(source)});
  }
  for (const auto& [key, value] : explanation.evidence) {
    keys.insert(keys.end(), {texts.of(key), texts.of(value)});
  }
  return {texts.of(explanation.reason), texts.of(explanation.attribution.rule), std::move(modules),
          std::move(operations), std::move(keys)};
}

}  // namespace

std::string page_data(const Report& report) {
  Json data = {{"file", report.file},
               {"version", WHENCE_VERSION},
               {"producer", std::string(report.model.producer) + " " + std::string(report.model.producer_version)},
               {"confidences", Json::array()},
               {"formulas", operation_formulas},
               {"coverage", report.validation.coverage.all.by},
               {"modules", modules_json(report)}};
  for (std::size_t i = 0; i < confidence_count; ++i) {
    data["confidences"].push_back(origin::name_of(static_cast<origin::Confidence>(i)));
  }
  data["nodes"] = nodes_json(report, data);
  add_edges(report, data);
  data["findings"] = findings_json(report.validation);
  data["checks"] = report.validation.checks.size();
  return embedded(data);
}

std::string page_evidence(const Report& report) {
  Interned texts;
  Json nodes = Json::array();
  for (const view::PlacedNode& placed : report.graph.nodes) {
    nodes.push_back(node_evidence(view::explain(*placed.node, report.recorded.get()), texts));
  }
  return embedded({{"texts", texts.json()}, {"nodes", std::move(nodes)}});
}

}  // namespace whence::report
