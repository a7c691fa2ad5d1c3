// `whence extract`: writes one module of an annotated file as a model of its own.
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
      "Makes a model from one call of one module. Its inputs are the values that the module reads from outside,\n"
      "its outputs the values that other nodes read; both keep their names. The model runs in ONNX Runtime and\n"
      "computes the same as the PyTorch module. A container that is never called, such as a ModuleList, means\n"
      "the modules in it. --modules takes several modules, as globs: for example, the first two layers as one\n"
      "model. If other nodes may also belong to the module, nothing is written without --partial.");
  line.positional("model", "an annotated file, or one whose exporter wrote module names");
  line.option("module,m", "NAME", "the module's qualified name: encoder.layer.3");
  line.repeated("modules", "GLOB",
                "several modules as one model, by qualified name: 'encoder.layer.[0-1]'; or re:PATTERN");
  line.option("call", "N", "the call of the module, from 0 (the first one by default)");
  line.flag("partial", "write the nodes that certainly belong to the module, although there may be more");
  declare_model_output(line, "the model of the module", Target::another_file);
  declare_copy_data(line);
  line.example("whence extract bert.annotated.onnx --module encoder.layer.3 -o layer3.onnx");
  line.example("whence extract bert.annotated.onnx --modules 'encoder.layer.[0-1]' -o first.onnx");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::string output = line.text("output");
  ExtractOptions options{.module = line.text_or("module", ""), .call = {}, .partial = line.has("partial")};
  options.modules = line.list("modules");
  if (line.has("module") == !options.modules.empty()) {
    throw Error(
        Code::usage,
        line.has("module") ? "--module and --modules were passed together" : "no module to extract was specified",
        "pass --module NAME, or --modules GLOB as often as needed", {.stage = "command line"});
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

const Command extract_command = {"extract", "write one module as a model of its own", run};

}  // namespace whence
