// `whence select`: the nodes of chosen modules, in the form that other tools take.
#include <iostream>
#include <nlohmann/json.hpp>

#include "annotator/app/views.h"
#include "annotator/dialect/dialect.h"
#include "annotator/text/table.h"
#include "annotator/text/words.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
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

// The formats, at the end of the description.
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
      "Writes the nodes of modules in the form that a tool takes: to leave them out of a quantisation, to set\n"
      "their precision, or to partition a model. A choice that the tool would ignore in part is an error.\n"
      "A glob means a module and all below it: `*` is one segment or a part of one, `**` any number of\n"
      "segments, `[0-3]` one of a set.\n" +
          formats_text());
  line.positional("file", "an annotated ONNX file");
  line.repeated("modules", "GLOB", "modules by qualified name; all by default");
  line.option("types", "A,B", "modules by class, beside those of --modules: BertLayer,LayerNorm");
  line.repeated("not", "GLOB", "but not these");
  line.option("ops", "A,B", "only nodes of these operator types, of which the file need not have all");
  line.option("format", "FORMAT", "one of the formats above");
  line.option("as", "SETTING", "what the nodes are to be, for formats that say it: fp32, DLA");
  line.flag("partial", "leave out nodes that the tool cannot be given, with a warning");
  line.option("sidecar,s", "FILE", "the sidecar, for a file that was exported and not yet annotated");
  line.example("whence select bert.onnx --modules 'encoder.layer.[0-3]' --not '**.LayerNorm' --ops MatMul,Gemm");
  line.example("whence select bert.onnx --modules '**.LayerNorm' --format trt-precisions --as fp32");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::string format = line.json() && !line.has("format") ? "" : line.one_of("format", format_names(), "names");
  const auto report =
      app::select(line.text("file"),
                  {.sidecar = line.optional_text("sidecar"),
                   .selection = {line.list("modules"), line.list("not"), text::split(line.text_or("ops", ""), ','),
                                 text::split(line.text_or("types", ""), ',')},
                   .format = format,
                   .choice = {.setting = line.text_or("as", ""), .partial = line.has("partial")}});
  if (line.json()) {
    Json object = {{"nodes", to_json(report.nodes)}};
    if (!format.empty()) object["text"] = report.text;
    print_json(object, report.notes);
    return ExitCode::ok;
  }
  print_text(report.notes);
  std::cout << report.text;
  return ExitCode::ok;
}

}  // namespace

const Command select_command = {"select", "the nodes of chosen modules, in the form that other tools take", run};

}  // namespace whence
