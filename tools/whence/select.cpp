// `whence select`: writes the nodes of chosen modules in the formats of other tools.
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "annotator/app/views.h"
#include "annotator/dialect/dialect.h"
#include "annotator/text/patterns.h"
#include "annotator/text/table.h"
#include "annotator/text/words.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/formats.h"
#include "tools/whence/printing.h"

namespace whence {

namespace {

using Json = nlohmann::ordered_json;

Json to_json(const std::vector<view::SelectedNode>& nodes) {
  Json list = Json::array();
  for (const view::SelectedNode& node : nodes) {
    list.push_back({{"name", node.name},
                    {"op_type", node.op_type},
                    {"module", node.module},
                    {"modules", node.modules},
                    {"primary", node.primary},
                    {"confidence", name_of(node.confidence)},
                    {"nested", node.nested}});
  }
  return list;
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const dialect::Dialect* dialect : dialect::all_dialects()) names.emplace_back(dialect->name);
  return names;
}

// Returns the list of formats for the end of the description.
std::string formats_text() {
  text::Table table({}, {text::Align::left, text::Align::left}, "  ");
  for (const dialect::Dialect* dialect : dialect::all_dialects()) {
    std::string settings;
    for (const std::string_view each : dialect->settings)
      settings += (settings.empty() ? "; --as " : ", ") + std::string(each);
    table.row({std::string(dialect->name), std::string(dialect->summary) + settings});
  }
  return "\nformats:\n" + table.text();
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "select",
      "annotated.onnx --modules GLOB [--types A,B] [--not GLOB]... [--ops A,B] [--format FORMAT] [--as SETTING]",
      "Writes the nodes of modules in the format of another tool: to exclude them from quantisation, to set\n"
      "their precision, or to partition a model. A choice that the tool would partly ignore is an error.\n"
      "A glob means a module and all below it: `*` is one segment or a part of one, `**` any number of\n"
      "segments, `[0-3]` one of a set. `re:PATTERN` is a regular expression of RE2 for the whole name.\n" +
          formats_text());
  line.positional("file", "an annotated ONNX file");
  line.repeated("modules", "GLOB", "modules by qualified name; all by default");
  line.option("types", "A,B", "modules by class, in addition to --modules: BertLayer,LayerNorm");
  line.repeated("not", "GLOB", "modules to exclude");
  line.option("ops", "A,B",
              "only nodes of these operator types, which may be missing in the file; re:PATTERN may come last");
  line.repeated("format", "FORMAT", "one of the formats above; repeatable, each with its --output");
  line.choices("format", format_names());
  declare_report_outputs(line);
  line.option("as", "SETTING", "the setting for the nodes, in formats that have one: fp32, DLA");
  line.flag("partial", "leave out nodes that the tool cannot accept, with a warning");
  line.option("sidecar,s", "FILE", "the sidecar, for a file that was exported but not annotated");
  line.example("whence select bert.onnx --modules 'encoder.layer.[0-3]' --not '**.LayerNorm' --ops MatMul,Gemm");
  line.example("whence select bert.onnx --modules '**.LayerNorm' --format trt-precisions --as fp32");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const auto select = [&](const std::string& format) {
    return app::select(
        line.text("file"),
        {.sidecar = line.optional_text("sidecar"),
         .selection = {line.list("modules"), line.list("not"), text::split_patterns(line.text_or("ops", "")),
                       text::split(line.text_or("types", ""), ',')},
         .format = format,
         .choice = {.setting = line.text_or("as", ""), .partial = line.has("partial")}});
  };
  std::vector<ReportForm> forms;
  if (!line.json() || line.has("format") || line.has("output")) forms = report_forms(line, format_names(), "names");
  std::optional<std::string> shown_format;  // in the JSON object
  if (line.json() && !forms.empty() && forms.back().file.empty()) {
    shown_format = forms.back().format;
    forms.pop_back();
  }
  std::set<std::string> printed;  // notes of the file, which all formats repeat
  const auto text_of = [&](const ReportForm& form) {
    app::SelectReport report = select(form.format);
    std::erase_if(report.notes, [&](const Diagnostic& each) { return !printed.insert(to_text(each)).second; });
    if (!line.json()) print_text(report.notes);
    return report.text;
  };
  if (!line.json()) {
    write_report_forms(forms, text_of);
    return ExitCode::ok;
  }
  const app::SelectReport report = select(shown_format.value_or(""));
  write_report_forms(forms, text_of);
  Json object = {{"nodes", to_json(report.nodes)}};
  if (shown_format) object["text"] = report.text;
  print_json(object, report.notes);
  return ExitCode::ok;
}

}  // namespace

const Command select_command = {"select", "write the nodes of chosen modules in the formats of other tools", run};

}  // namespace whence
