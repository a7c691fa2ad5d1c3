// A report as the data that its page reads (page/data.js). Columns rather than objects, and names by number, so that a
// file of ten thousand nodes stays quick to open. It is written as it is made, for
// that of a million nodes is as large as the file.
#include <algorithm>
#include <concepts>
#include <deque>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "annotator/report/report.h"
#include "annotator/view/explanation.h"
#include "annotator/view/operation_count.h"
#include "schema/json_text.h"

namespace whence::report {

using origin::confidence_count;
using view::operation_formulas;

namespace {

using Json = nlohmann::ordered_json;

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

void put(AtomicFile& to, const Json& json) { to.write(embedded(json)); }
void put(AtomicFile& to, std::integral auto number) { to.write(std::to_string(number)); }

// Puts the array of what `put_item` puts of each item.
template <class Items, class PutItem>
void put_array(AtomicFile& to, const Items& items, const PutItem& put_item) {
  std::string_view between = "[";
  for (const auto& item : items) {
    to.write(std::exchange(between, ","));
    put_item(item);
  }
  to.write(items.empty() ? "[]" : "]");
}

// Texts by number, put into an array as they come.
class Interned {
 public:
  explicit Interned(AtomicFile& to) : to_(to) { to.write("["); }

  std::size_t of(std::string_view text) {
    const auto known = numbers_.find(text);
    return known != numbers_.end() ? known->second : of_lasting(copies_.emplace_back(text));
  }
  // `text` outlives the object.
  std::size_t of_lasting(std::string_view text) {
    const auto [entry, is_new] = numbers_.try_emplace(text, static_cast<std::uint32_t>(numbers_.size()));
    if (is_new) {
      if (entry->second > 0) to_.write(",");
      put(to_, text);
    }
    return entry->second;
  }
  void end() { to_.write("]"); }

 private:
  AtomicFile& to_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
  std::deque<std::string> copies_;
};

// [arrived, fused, folded, eliminated, unknown] operations and [kept, merged, unused, missing] parameters by module of
// the sidecar.
std::unordered_map<std::string_view, Json> recorded_modules(const validation::Validation& validation) {
  std::unordered_map<std::string_view, Json> recorded;
  if (!validation.hierarchy || !validation.hierarchy->belongs) return recorded;
  for (const validation::ModuleHierarchy& module : validation.hierarchy->modules.rows) {
    Json row = module.operations;
    row.insert(row.end(), {module.kept_parameters(), module.merged_parameters(), module[validation::Arrival::unused],
                           module[validation::Arrival::missing]});
    recorded.emplace(module.path, std::move(row));
  }
  return recorded;
}

void put_modules(const Report& report, AtomicFile& to) {
  std::unordered_map<std::string_view, std::string_view> silent;
  for (const validation::SilentModule& module : report.validation.silent)
    silent.emplace(module.path, validation::text_of(module.silence));
  const auto recorded = recorded_modules(report.validation);
  put_array(to, report.graph.tree.rows, [&](const view::ModuleRow& row) {
    const ModuleFigures& figures = report.figures[static_cast<std::size_t>(&row - report.graph.tree.rows.data())];
    const auto silence = silent.find(row.path);
    const auto fates = recorded.find(row.path);
    put(to, {{"path", row.path},
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
             {"unsized", figures.unsized},
             {"coverage", figures.coverage.by},
             {"recorded", fates == recorded.end() ? Json() : fates->second},
             {"silent", silence == silent.end() ? "" : silence->second}});
  });
}

std::string operator_text(const onnx_file::OnnxNode& node) {
  return (node.domain.empty() ? "" : std::string(node.domain) + "::") + std::string(node.op_type);
}

void put_nodes(const Report& report, AtomicFile& to) {
  const std::vector<view::PlacedNode>& nodes = report.graph.nodes;
  to.write(",\"operators\":");
  Interned operators(to);
  for (const view::PlacedNode& placed : nodes) operators.of(operator_text(*placed.node));
  operators.end();
  to.write(",\"sources\":");
  Interned sources(to);
  for (const view::PlacedNode& placed : nodes) sources.of(placed.attribution.source);
  sources.end();
  const auto column = [&](std::string_view name, const auto& put_node) {
    to.write(name);
    put_array(to, nodes, put_node);
  };
  column(",\"nodes\":{\"name\":", [&](const auto& placed) { put(to, placed.node->name); });
  column(",\"op\":", [&](const auto& placed) { put(to, operators.of(operator_text(*placed.node))); });
  column(",\"module\":", [&](const auto& placed) { put(to, or_null(placed.row)); });
  column(",\"confidence\":", [&](const auto& placed) { put(to, Json(placed.attribution.confidence)); });
  column(",\"call\":", [&](const auto& placed) { put(to, placed.attribution.call); });
  column(",\"source\":", [&](const auto& placed) { put(to, sources.of(placed.attribution.source)); });
  to.write(",\"operations\":");
  put_array(to, report.operations, [&](const auto& count) { put(to, or_null(count)); });
  to.write("}");
}

void put_edges(const Report& report, AtomicFile& to) {
  const auto edges = report.graph.index.edges();
  const auto inputs = report.graph.index.input_edges(), outputs = report.graph.index.output_edges();
  to.write(",\"values\":");
  Interned values(to);
  std::vector<std::string_view> names;
  const auto add = [&](const auto& each) {
    if (values.of_lasting(each.value) == names.size()) names.push_back(each.value);
  };
  std::ranges::for_each(edges, add);
  std::ranges::for_each(inputs, add);
  std::ranges::for_each(outputs, add);
  values.end();
  to.write(",\"shapes\":");
  put_array(to, names, [&](std::string_view name) {
    const auto shape = report.shapes.values.find(std::string(name));
    put(to, shape == report.shapes.values.end() ? "" : shape->second->text);
  });
  const auto put_all = [&](const auto&... numbers) {
    std::string_view between;
    ((to.write(std::exchange(between, ",")), put(to, numbers)), ...);
  };
  to.write(",\"edges\":");
  put_array(to, edges, [&](const auto& edge) { put_all(edge.from, edge.to, values.of_lasting(edge.value)); });
  to.write(",\"inputs\":");
  put_array(to, inputs, [&](const auto& edge) { put_all(values.of_lasting(edge.value), edge.node); });
  to.write(",\"outputs\":");
  put_array(to, outputs, [&](const auto& edge) { put_all(edge.node, values.of_lasting(edge.value)); });
}

Json findings_json(const validation::Validation& validation) {
  Json findings = Json::array();
  for (const validation::Finding& finding : validation.findings) {
    Json items = Json::array();
    for (const validation::FindingItem& item : finding.items) items.push_back({item.subject, item.detail});
    findings.push_back({{"code", finding.check->code},
                        {"name", finding.check->name},
                        {"severity", finding.check->level()},
                        {"summary", finding.check->summary},
                        {"remedy", finding.check->remedy},
                        {"why", finding.check->why},
                        {"items", std::move(items)}});
  }
  return findings;
}

Json node_evidence(const onnx_file::OnnxNode& node, const metadata::Recorded* recorded, Interned& texts) {
  const view::Explanation explanation = view::explain(node, recorded);
  Json modules = Json::array(), operations = modules, keys = modules;
  if (explanation.attribution.modules.size() > 1) {
    for (const std::string& module : explanation.attribution.modules) modules.push_back(texts.of(module));
  }
  for (const view::ExplainedOperation& operation : explanation.operations) {
    Json scope = Json::array(), source = scope;
    for (const auto& call : operation.scope) {
      scope.push_back({texts.of(call.path), texts.of(call.type), call.call});
    }
    for (const std::string& frame : operation.source) source.push_back(texts.of(frame));
    operations.push_back({operation.index, texts.of(operation.op), std::move(scope), std::move(source)});
  }
  for (const auto& [key, value] : node.metadata.list()) {
    keys.insert(keys.end(), {texts.of_lasting(key), texts.of_lasting(value)});
  }
  return {texts.of(explanation.reason), texts.of(explanation.attribution.rule), std::move(modules),
          std::move(operations), std::move(keys)};
}

}  // namespace

void write_page_data(const Report& report, AtomicFile& to) {
  Json confidences = Json::array();
  for (std::size_t i = 0; i < confidence_count; ++i) {
    confidences.push_back(origin::name_of(static_cast<origin::Confidence>(i)));
  }
  std::string head =
      embedded({{"file", report.file},
                {"version", WHENCE_VERSION},
                {"producer", std::string(report.model.producer) + " " + std::string(report.model.producer_version)},
                {"confidences", std::move(confidences)},
                {"formulas", operation_formulas},
                {"unsized", unsized_operations},
                {"open_sizes", report.shapes.open},
                {"coverage", report.validation.coverage.all.by}});
  head.pop_back();
  to.write(head + ",\"modules\":");
  put_modules(report, to);
  put_nodes(report, to);
  put_edges(report, to);
  to.write(",\"findings\":");
  put(to, findings_json(report.validation));
  to.write(",\"checks\":");
  put(to, report.validation.checks.size());
  to.write("}");
}

void write_page_evidence(const Report& report, AtomicFile& to) {
  const auto evidence_of = [&](const view::PlacedNode& placed, Interned& texts) {
    return node_evidence(*placed.node, report.recorded.get(), texts);
  };
  to.write("{\"texts\":");
  Interned texts(to);
  for (const view::PlacedNode& placed : report.graph.nodes) evidence_of(placed, texts);
  texts.end();
  to.write(",\"nodes\":");
  put_array(to, report.graph.nodes, [&](const view::PlacedNode& placed) { put(to, evidence_of(placed, texts)); });
  to.write("}");
}

}  // namespace whence::report
