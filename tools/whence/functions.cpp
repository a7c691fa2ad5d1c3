// `whence functions`: turns modules of an annotated file into ONNX functions, one for each unique block.
#include "whence/functions.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "annotator/app/function_choice.h"
#include "annotator/text/table.h"
#include "annotator/text/words.h"
#include "schema/printable.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/palette.h"
#include "tools/whence/printing.h"

namespace whence {
namespace {

void print_json(const FunctionsReport& report, const std::string& output) {
  nlohmann::ordered_json object = {{"file", output}};
  object.update(to_json(report));
  print_json(std::move(object), report.notes);
}

void print_people(const FunctionsReport& report, const std::string& output) {
  print_text(report.notes);
  text::Table table(output_palette(), {text::Align::left, text::Align::right, text::Align::right, text::Align::left},
                    "  ");
  table.header({"function", "nodes", "calls", "first module"});
  for (const FunctionsReport::Function& each : report.functions) {
    table.row({each.name, std::to_string(each.nodes), std::to_string(each.calls), each.modules.front()});
  }
  std::cout << table.text() << output << ": " << text::counted(report.nodes_before, "node") << " became "
            << report.nodes_after << ", " << report.functions.size()
            << (report.functions.size() == 1 ? " function" : " functions") << " among them\n";
  constexpr std::size_t max_lines = 10;
  for (std::size_t i = 0; i < std::min(report.refused.size(), max_lines); ++i) {
    std::cout << "left as it is: " << shown(report.refused[i].module) << ": " << shown(report.refused[i].reason)
              << "\n";
  }
  if (report.refused.size() > max_lines)
    std::cout << "... and " << report.refused.size() - max_lines << " more (--json)\n";
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "functions", "annotated.onnx -o out.onnx [--modules GLOB]... [--types A,B] [--depth N] [--auto]",
      "Turns modules into ONNX functions: one for each unique block, with its weights as inputs, and one node,\n"
      "named after the module, for each call. Metadata is kept, and `whence inline` restores the graph, which is\n"
      "checked before anything is written. Without a choice, takes the modules that save the most nodes.");
  line.positional("model", "an annotated file, or one whose exporter wrote module names (PyTorch's dynamo exporter)");
  declare_model_output(line, "the file with functions; may be the same file", Target::may_be_the_model);
  declare_copy_data(line);
  line.repeated("modules", "GLOB", "modules by qualified name: 'encoder.layer.*', '**.attention'; or re:PATTERN");
  line.option("types", "A,B", "modules by class: BertLayer,BertAttention");
  line.option("depth", "N", "all modules down to N calls below the root");
  line.flag("auto", "the repeated blocks that save the most nodes (the default)");
  line.removed("by-structure", app::annotate_first);
  line.example("whence functions bert.annotated.onnx -o bert.functions.onnx --types BertLayer");
  line.example("whence inline bert.functions.onnx -o bert.flat.onnx");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  FunctionChoice options;
  options.modules = line.list("modules");
  options.types = text::split(line.text_or("types", ""), ',');
  if (line.has("depth")) {
    options.depth = static_cast<int>(line.integer_or("depth", 1));
    if (*options.depth < 1) {
      throw Error(Code::usage, "--depth " + line.text("depth") + " is not a number of levels", "use 1 or more",
                  {.stage = "command line"});
    }
  }
  const bool chosen = !options.modules.empty() || !options.types.empty() || options.depth;
  if (line.has("auto") && chosen) {
    throw Error(Code::usage, "--auto and a choice of modules were passed together", "pass only one of them",
                {.stage = "command line"});
  }
  const std::string output = line.text("output");
  const FunctionsReport report = make_functions(line.text("model"), output, options, weight_files(line));
  line.json() ? print_json(report, output) : print_people(report, output);
  return ExitCode::ok;
}

}  // namespace

const Command functions_command = {"functions", "turn modules into ONNX functions, one for each unique block", run};

}  // namespace whence
