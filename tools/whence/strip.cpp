// `whence strip`: takes back what `whence annotate` wrote.
#include <iostream>

#include "annotator/text/words.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/printing.h"
#include "whence/annotate.h"

namespace whence {
namespace {

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "strip", "annotated.onnx -o plain.onnx",
      "Takes back what `whence annotate` wrote and gives the file as it was before, byte for byte. Calls of\n"
      "functions that whence made are written out first: then it is the same graph, under the same names\n"
      "of nodes. Weights in files of their own get the names back that they had, where those are free.");
  line.positional("model", "a file that `whence annotate` wrote");
  declare_model_output(line, "the stripped file; may be the same file", Target::may_be_the_model);
  declare_copy_data(line);
  line.example("whence strip bert.annotated.onnx -o bert.onnx");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::string output = line.text("output");
  const StripReport report = strip(line.text("model"), output, weight_files(line));
  if (line.json()) {
    print_json({{"file", output}, {"nodes", report.nodes}, {"stripped", report.stripped}, {"changed", report.changed}},
               report.notes);
    return ExitCode::ok;
  }
  print_text(report.notes);
  std::cout << output << ": " << report.stripped << " of " << text::counted(report.nodes, "node") << " stripped"
            << (report.changed ? "\n" : "; whence had not annotated the file\n");
  return ExitCode::ok;
}

}  // namespace

const Command strip_command = {"strip", "take back what annotate wrote", run};

}  // namespace whence
