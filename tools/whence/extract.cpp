// `whence extract`: one module of an annotated file as a model of its own.
#include <iostream>

#include "annotator/text/words.h"
#include "schema/printable.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/printing.h"
#include "whence/functions.h"

namespace whence {
namespace {

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "extract", "annotated.onnx --module NAME -o part.onnx [--call N]",
      "Makes a model of one call of one module: what it reads from outside are its inputs, under the names\n"
      "they have in the file, and what others read of it its outputs. It runs in ONNX Runtime and computes\n"
      "what that module of the PyTorch model computes. A container that is never called, such as a\n"
      "ModuleList, stands for the modules in it. --modules takes several, as globs: the first two layers as\n"
      "one model. Where nodes beside the module may belong to it, nothing is\n"
      "written unless --partial is given.");
  line.positional("model", "an annotated file, or one whose exporter wrote module names");
  line.option("module,m", "NAME", "the module's qualified name: encoder.layer.3");
  line.repeated("modules", "GLOB",
                "several modules as one model, by qualified name: 'encoder.layer.[0-1]'; or re:PATTERN");
  line.option("call", "N", "which call of it, from 0 (the first one by default)");
  line.flag("partial", "write the nodes that are known to be the module's, though there may be more");
  declare_model_output(line, "the model of the module", Target::another_file);
  declare_copy_data(line);
  line.example("whence extract bert.annotated.onnx --module encoder.layer.3 -o layer3.onnx");
  line.example("whence extract bert.annotated.onnx --modules 'encoder.layer.[0-1]' -o first.onnx");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::string output = line.text("output");
  ExtractOptions options{.module = line.text_or("module", ""), .call = {}, .partial = line.has("partial")};
  options.modules = line.list("modules");
  if (line.has("module") == !options.modules.empty()) {
    throw Error(Code::usage,
                line.has("module") ? "--module and --modules were given together" : "no module was given to extract",
                "give --module NAME, or --modules GLOB as often as needed", {.stage = "command line"});
  }
  if (line.has("call")) options.call = static_cast<int>(line.integer_or("call", 0));
  const ExtractReport report = extract_module(line.text("model"), output, options, weight_files(line));
  if (line.json()) {
    print_json({{"file", output},
                {"call", report.call},
                {"calls", report.calls},
                {"inputs", report.inputs},
                {"outputs", report.outputs},
                {"nodes", report.nodes},
                {"weights", report.weights},
                {"taken_along", report.taken_along}},
               report.notes);
    return ExitCode::ok;
  }
  print_text(report.notes);
  std::cout << output << ": " << text::counted(report.nodes, "node") << ", " << text::counted(report.weights, "weight")
            << "\n";
  if (report.calls.size() > 1) {
    std::cout << "  call " << report.call << ", one of " << report.calls.size() << " calls of "
              << shown(options.modules.empty() ? options.module : options.modules.front())
              << (options.call ? "" : "; --call takes another") << "\n";
  }
  for (const std::string& value : report.inputs) std::cout << "  input   " << shown(value) << "\n";
  for (const std::string& value : report.outputs) std::cout << "  output  " << shown(value) << "\n";
  return ExitCode::ok;
}

}  // namespace

const Command extract_command = {"extract", "one module as a model of its own", run};

}  // namespace whence
