// `whence strip`: removes everything that `whence annotate` wrote.
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
      "Removes everything that `whence annotate` wrote and restores the original file, byte for byte. If whence\n"
      "made functions in it, their calls are inlined first; then graph and node names are restored. Files of\n"
      "weights get their former names back, if these are free.");
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

const Command strip_command = {"strip", "remove what annotate wrote", run};

}  // namespace whence
