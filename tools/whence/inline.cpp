// `whence inline`: replaces calls of ONNX functions with the nodes of their bodies.
#include <iostream>

#include "annotator/text/words.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/printing.h"
#include "whence/functions.h"

namespace whence {
namespace {

ExitCode run(int argc, char** argv) {
  CommandLine line("inline", "functions.onnx -o flat.onnx [--all]",
                   "Replaces each call of a function that `whence functions` made with the nodes of the function, and\n"
                   "restores their metadata. --all also replaces calls of other functions.");
  line.positional("model", "an ONNX file with functions");
  declare_model_output(line, "the file without functions; may be the same file", Target::may_be_the_model);
  declare_copy_data(line);
  line.flag("all", "inline every function, not only those made by whence");
  line.example("whence inline bert.functions.onnx -o bert.flat.onnx");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::string output = line.text("output");
  const InlineReport report = inline_functions(line.text("model"), output, line.has("all"), weight_files(line));
  if (line.json()) {
    print_json({{"file", output}, {"calls", report.calls}, {"functions", report.functions}, {"nodes", report.nodes}},
               report.notes);
    return ExitCode::ok;
  }
  print_text(report.notes);
  std::cout << output << ": " << text::counted(report.calls, "call") << " of "
            << text::counted(report.functions, "function") << " written out, " << text::counted(report.nodes, "node")
            << "\n";
  return ExitCode::ok;
}

}  // namespace

const Command inline_command = {"inline", "replace calls of ONNX functions with their nodes", run};

}  // namespace whence
