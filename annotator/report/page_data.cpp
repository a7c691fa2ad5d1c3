// Writes a report as data for its page (page/data.js). Data that grows with the model is packed into columns of numbers
// and pieces of text, because a browser needs seconds to load a hundred megabytes. Everything else is one JSON text.
#include <algorithm>
#include <span>
#include <unordered_map>

#include "annotator/report/page_parts.h"
#include "annotator/report/report.h"
#include "annotator/view/explanation.h"
#include "annotator/view/operation_count.h"
#include "generated/report_page.h"

namespace whence::report {

using origin::confidence_count;
using view::operation_formulas;

namespace {

// Returns [arrived, fused, folded, eliminated, unknown] operations and [kept, merged, unused, missing] parameters for
// each module of the sidecar.
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

// Writes modules as columns; values that few modules have are keyed by row.
void put_modules(const Report& report, TextSink& to, Packed& packed) {
  const std::vector<view::ModuleRow>& rows = report.graph.tree.rows;
  const auto row_of = [&](const view::ModuleRow& row) { return static_cast<std::size_t>(&row - rows.data()); };
  Interned types;
  const auto column = [&](const std::string& name, const auto& value_of) {
    using Value = std::decay_t<decltype(value_of(rows.front()))>;
    constexpr bool whole = std::integral<Value>;
    std::vector<std::conditional_t<whole, std::uint64_t, std::optional<std::uint64_t>>> numbers;
    numbers.reserve(rows.size());
    for (const view::ModuleRow& row : rows) numbers.emplace_back(value_of(row));
    packed.column("modules-" + name, numbers);
  };
  packed.texts("paths", rows, [](const view::ModuleRow& row) { return std::string_view(row.path); });
  column("type", [&](const auto& row) { return types.of_lasting(row.type); });
  to.write("{\"count\":");
  put(to, rows.size());
  to.write(",\"types\":");
  types.put_all(to);
  column("parent", [](const auto& row) { return row.parent; });
  column("calls", [](const auto& row) { return row.calls; });
  column("own", [](const auto& row) { return row.own; });
  column("total", [](const auto& row) { return row.total; });
  column("parameters", [](const auto& row) { return row.parameters; });
  column("trainable", [](const auto& row) { return row.trainable; });
  column("operations", [&](const auto& row) { return report.figures[row_of(row)].operations; });
  column("uncounted", [&](const auto& row) { return report.figures[row_of(row)].uncounted; });
  column("unsized", [&](const auto& row) { return report.figures[row_of(row)].unsized; });
  std::vector<std::uint64_t> coverage;  // the columns of all confidences, concatenated
  for (std::size_t i = 0; i < confidence_count; ++i) {
    for (const ModuleFigures& figures : report.figures)
      coverage.push_back(static_cast<std::uint64_t>(figures.coverage.by[i]));
  }
  packed.column("modules-states", coverage);
  Json aliases = Json::object(), fates = aliases, silences = aliases;
  std::unordered_map<std::string_view, std::string_view> silent;
  for (const validation::ModuleWithoutNode& module : report.validation.silent)
    silent.emplace(module.path, validation::text_of(module.reason));
  const auto recorded = recorded_modules(report.validation);
  for (const view::ModuleRow& row : rows) {
    const std::string key = std::to_string(row_of(row));
    if (!row.aliases.empty()) aliases[key] = row.aliases;
    if (const auto found = recorded.find(row.path); found != recorded.end()) fates[key] = found->second;
    if (const auto found = silent.find(row.path); found != silent.end()) silences[key] = found->second;
  }
  const auto sparse = [&](std::string_view name, const Json& by_row) {
    to.write(name);
    put(to, by_row);
  };
  sparse(",\"aliases\":", aliases);
  sparse(",\"recorded\":", fates);
  sparse(",\"silent\":", silences);
  to.write("}");
}

std::string operator_text(const onnx_file::OnnxNode& node) {
  return (node.domain.empty() ? "" : std::string(node.domain) + "::") + std::string(node.op_type);
}

void put_nodes(const Report& report, TextSink& to, Packed& packed) {
  const std::vector<view::PlacedNode>& nodes = report.graph.nodes;
  Interned operators, sources, calls;
  std::vector<std::uint64_t> operator_of, source_of, call_of, confidence_of;
  std::vector<std::optional<std::uint64_t>> row_of, operations_of;
  for (const view::PlacedNode& placed : nodes) {
    operator_of.push_back(operators.of(operator_text(*placed.node)));
    const metadata::Attribution attribution = report.graph.attribution_of(placed);
    source_of.push_back(sources.of(attribution.source));
    call_of.push_back(calls.of(attribution.call));
    confidence_of.push_back(static_cast<std::uint64_t>(placed.confidence));
    row_of.emplace_back(placed.row);
  }
  for (const auto& operations : report.operations) operations_of.emplace_back(operations);
  to.write(",\"nodes\":");
  put(to, nodes.size());
  to.write(",\"operators\":");
  operators.put_all(to);
  to.write(",\"sources\":");
  sources.put_all(to);
  to.write(",\"calls\":");
  calls.put_all(to);
  packed.texts("names", nodes, [](const view::PlacedNode& placed) { return placed.node->name; });
  packed.column("nodes-op", operator_of);
  packed.column("nodes-module", row_of);
  packed.column("nodes-state", confidence_of);
  packed.column("nodes-call", call_of);
  packed.column("nodes-source", source_of);
  packed.column("nodes-operations", operations_of);
}

void put_edges(const Report& report, TextSink& to, Packed& packed) {
  const onnx_file::GraphIndex& index = report.graph.index;
  Interned values, shapes;
  const auto column = [&](std::string_view name, const auto& list, const auto& number_of) {
    std::vector<std::uint64_t> numbers;
    numbers.reserve(list.size());
    for (const auto& each : list) numbers.push_back(static_cast<std::uint64_t>(number_of(each)));
    packed.column(name, numbers);
  };
  const auto value = [&](const auto& edge) { return values.of_lasting(edge.value); };
  const auto node = [](const auto& edge) { return edge.node; };
  column("edges-value", index.edges(), value);
  column("edges-from", index.edges(), [](const auto& edge) { return edge.from; });
  column("edges-to", index.edges(), [](const auto& edge) { return edge.to; });
  column("inputs-value", index.input_edges(), value);
  column("inputs-node", index.input_edges(), node);
  column("outputs-value", index.output_edges(), value);
  column("outputs-node", index.output_edges(), node);
  packed.texts("values", values.texts(), [](std::string_view name) { return name; });
  column("values-shape", values.texts(), [&](std::string_view name) {
    const auto shape = report.shapes.values.find(name);
    return shapes.of_lasting(shape == report.shapes.values.end() ? std::string_view() : shape->second->text);
  });
  to.write(",\"values\":");
  put(to, values.texts().size());
  to.write(",\"shape_texts\":");
  shapes.put_all(to);
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

Json operation_evidence(const view::ExplainedOperation& operation, Interned& texts) {
  Json scope = Json::array(), source = scope;
  for (const auto& call : operation.scope) scope.push_back({texts.of(call.path), texts.of(call.type), call.call});
  for (const std::string& frame : operation.source) source.push_back(texts.of(frame));
  return {operation.index, texts.of(operation.op), std::move(scope), std::move(source)};
}

// Writes [reason, rule, [module], [operation], [key, value]], with texts by number.
void put_evidence(TextSink& to, const view::PlacedNode& placed, const view::NodeGraph& graph, Interned& texts) {
  const metadata::Attribution attribution = graph.attribution_of(placed);
  const metadata::Recorded* const recorded = graph.recorded.get();
  to.write("[");
  put(to, texts.of(view::reason_of(*placed.node, attribution, recorded)));
  to.write(",");
  put(to, texts.of(attribution.rule));
  to.write(",");
  const std::vector<std::string> no_modules;
  put_array(to, attribution.modules.size() > 1 ? attribution.modules : no_modules,
            [&](const std::string& module) { put(to, texts.of(module)); });
  to.write(",");
  put_array(to, view::operations_of(attribution, recorded),
            [&](const view::ExplainedOperation& each) { put(to, operation_evidence(each, texts)); });
  to.write(",");
  put_array(to, placed.node->metadata.list(), [&](const onnx_file::OnnxProperty& entry) {
    put(to, texts.of_lasting(entry.key));
    to.write(",");
    put(to, texts.of_lasting(entry.value));
  });
  to.write("]");
}

std::string evidence_text(std::span<const view::PlacedNode> nodes, const view::NodeGraph& graph) {
  TextSink to;
  Interned texts;
  to.write("{\"nodes\":");
  put_array(to, nodes, [&](const view::PlacedNode& placed) { put_evidence(to, placed, graph, texts); });
  to.write(",\"texts\":");
  texts.put_all(to);
  to.write("}");
  return std::move(to.text);
}

}  // namespace

PageData page_data(const Report& report) {
  Json confidences = Json::array();
  for (std::size_t i = 0; i < confidence_count; ++i) {
    confidences.push_back(origin::name_of(static_cast<origin::Confidence>(i)));
  }
  std::string head =
      embedded({{"file", report.file},
                {"version", WHENCE_VERSION},
                {"producer", std::string(report.model.producer) + " " + std::string(report.model.producer_version)},
                {"states", std::move(confidences)},
                {"formulas", operation_formulas},
                {"unsized", unsized_operations(report)},
                {"open_sizes", report.shapes.open},
                {"piece", piece_size},
                {"coverage", report.validation.coverage.all.by}});
  head.pop_back();
  TextSink to{head + ",\"modules\":"};
  Packed packed;
  put_modules(report, to, packed);
  put_nodes(report, to, packed);
  put_edges(report, to, packed);
  to.write(",\"findings\":");
  put(to, findings_json(report.validation));
  to.write(",\"checks\":");
  put(to, report.validation.checks.size());
  to.write("}");
  return {std::move(to.text), std::move(packed.elements)};
}

void write_page_evidence(const Report& report, AtomicFile& to) {
  const std::vector<view::PlacedNode>& nodes = report.graph.nodes;
  for (std::size_t first = 0, piece = 0; first < nodes.size(); first += piece_size, ++piece) {
    const std::span part = std::span(nodes).subspan(first, std::min(piece_size, nodes.size() - first));
    to.write("<script type=\"text/plain\" id=\"whence-evidence-" + std::to_string(piece) + "\">");
    to.write(deflated(evidence_text(part, report.graph)));
    to.write("</script>\n");
  }
}

void write_html(const Report& report, AtomicFile& to) {
  write_page({report_script, report_script_digest}, page_data(report), to,
             [&](AtomicFile& file) { write_page_evidence(report, file); });
}

}  // namespace whence::report
