// `whence strip`: takes back what `whence annotate` wrote.
#include "annotator/annotation/strip.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/given_files.h"
#include "tools/whence/written_out.h"

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
  line.example("whence strip bert.annotated.onnx -o bert.onnx");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const ModelOutput output = model_output(line);
  Diagnostics notes;
  const WrittenOut flat(line.text("model"), output.path, notes);
  const StripReport report = unwrap(strip_file(flat.source(), output), notes);
  if (line.json()) {
    const nlohmann::ordered_json object = {{"file", output.path},
                                           {"nodes", report.nodes},
                                           {"stripped", report.stripped},
                                           {"changed", report.changed},
                                           {"diagnostics", nlohmann::ordered_json::parse(json_array(notes))}};
    std::cout << object.dump(2) << "\n";
    return ExitCode::ok;
  }
  print_text(notes);
  std::cout << output.path << ": " << report.stripped << " of " << report.nodes << " nodes stripped"
            << (report.changed ? "\n" : "; whence had not annotated the file\n");
  return ExitCode::ok;
}

}  // namespace

const Command strip_command = {"strip", "take back what annotate wrote", run};

}  // namespace whence
