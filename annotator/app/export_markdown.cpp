#include "annotator/app/export_markdown.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "annotator/graph/graph.h"
#include "schema/files/files.h"

namespace whence::app {
namespace {

// Returns a table cell: one line, with bars and markup characters escaped.
std::string cell(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '|' || letter == '<' || letter == '*' || letter == '`' || letter == '_' || letter == '\\')
      safe += '\\';
    safe += letter == '\n' ? ' ' : letter;
  }
  return safe;
}

std::string code(std::string_view text) {
  std::string safe(text);
  std::replace(safe.begin(), safe.end(), '`', '\'');
  std::replace(safe.begin(), safe.end(), '|', '/');
  std::replace(safe.begin(), safe.end(), '\n', ' ');
  return "`" + safe + "`";
}

class Table {
 public:
  explicit Table(const std::vector<std::string>& titles) {
    row(titles);
    text_ += "|";
    for (std::size_t i = 0; i < titles.size(); ++i) text_ += " --- |";
    text_ += "\n";
  }
  void row(const std::vector<std::string>& cells) {
    text_ += "|";
    for (const std::string& each : cells) text_ += " " + each + " |";
    text_ += "\n";
  }
  std::string text() const { return text_ + "\n"; }

 private:
  std::string text_;
};

std::string module_of(const Program& program, const Node& node) {
  const std::string& path = program.module_path(node.origin.scope);
  return path.empty() ? "the root" : code(path);
}

std::string place_of(const Place& place) {
  std::string text;
  const auto add = [&](const std::string& part) {
    if (!text.empty() && !part.empty()) text += ", ";
    text += part;
  };
  if (place.has_module) add(place.module.empty() ? "the root" : code(place.module));
  add(place.node.empty() ? "" : code(place.node));
  add(cell(place.source));
  add(text.empty() ? cell(place.file) : "");
  return text;
}

std::string diagnostics_section(const std::string& title, const Diagnostics& diagnostics, bool errors) {
  Table table({"code", "what", "times", "where", "what to do"});
  bool any = false;
  for (const Diagnostic& each : diagnostics) {
    if ((each.severity == Severity::error) != errors) continue;
    any = true;
    std::string places = place_of(each.where);
    for (const Place& place : each.more_places) places += "; " + place_of(place);
    table.row({label(each.code) + " " + std::string(info(each.code).name), cell(each.message),
               std::to_string(each.count), places, cell(each.remedy)});
  }
  return any ? "## " + title + "\n\n" + table.text() : "";
}

std::string operators_section(const ExportRun& run) {
  struct Row {
    std::int64_t count = 0;
    const Node* first = nullptr;
  };
  std::map<std::string, Row> rows;
  for (const Node* node : operations(*run.program)) {
    Row& row = rows[node->overload.empty() ? node->target : node->target + "." + node->overload];
    if (row.count++ == 0) row.first = node;
  }
  const auto missing = [&](const std::string& name) {
    return std::ranges::any_of(run.diagnostics, [&](const Diagnostic& each) {
      return each.code == Code::no_converter && each.severity == Severity::error && each.message == name;
    });
  };
  Table table({"operator", "operations", "first in", "converter"});
  for (const auto& [name, row] : rows) {
    table.row({code(name), std::to_string(row.count), module_of(*run.program, *row.first),
               missing(name) ? "**missing**" : "yes"});
  }
  return "## Operators of the program\n\n" + table.text();
}

std::string modules_section(const Program& program) {
  IndexedVector<ModuleId, std::int64_t> count(program.modules.size());
  for (const Node* node : operations(program)) ++count[program.scopes[node->origin.scope].module];
  Table table({"module", "class", "operations", "parameters"});
  for (const ModuleId id : program.modules.keys()) {
    const Module& module = program.modules[id];
    table.row({module.path.empty() ? "the root" : code(module.path), code(module.type), std::to_string(count[id]),
               std::to_string(module.parameters_total)});
  }
  return "## The program\n\nOperations are the module's own, parameters include modules below it.\n\n" + table.text();
}

std::string nodes_section(const graph::Graph& graph) {
  std::map<std::string, std::int64_t> count;
  for (const graph::GraphNode& node : graph.nodes)
    ++count[node.domain.empty() ? node.op_type : node.domain + "::" + node.op_type];
  Table table({"ONNX operator", "nodes"});
  for (const auto& [name, nodes] : count) table.row({code(name), std::to_string(nodes)});
  return "## The graph\n\n" + table.text();
}

}  // namespace

void Stages::begin(std::string name) {
  end();
  seconds_.emplace_back(std::move(name), -1.0);
  since_ = std::chrono::steady_clock::now();
}

void Stages::end() {
  if (seconds_.empty() || seconds_.back().second >= 0) return;
  seconds_.back().second = std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count();
}

std::string to_markdown(const ExportRun& run) {
  std::string text = "# Export of " + code(base_name(run.archive)) + "\n\n";
  if (run.written) {
    text += "Written: " + code(run.output) + ", opset " + std::to_string(run.opset) + ", " +
            std::to_string(run.graph->nodes.size()) + " nodes for " + std::to_string(operations(*run.program).size()) +
            " operations.\n\n";
  } else {
    text += "**Nothing was written.** The export failed in the stage *" +
            (run.stages.seconds().empty() ? "start" : run.stages.seconds().back().first) + "*.\n\n";
  }
  text += diagnostics_section("Errors", run.diagnostics, true);
  text += diagnostics_section("Notes", run.diagnostics, false);
  if (run.program != nullptr) text += operators_section(run);
  if (run.graph != nullptr) text += nodes_section(*run.graph);
  Table time({"stage", "seconds"});
  for (const auto& [stage, seconds] : run.stages.seconds()) {
    char number[32];
    std::snprintf(number, sizeof number, "%.3f", seconds);
    time.row({stage, number});
  }
  text += "## Time\n\n" + time.text();
  if (run.program != nullptr) text += modules_section(*run.program);
  return text;
}

}  // namespace whence::app
