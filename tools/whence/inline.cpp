// `whence inline`: calls of ONNX functions written out again.
#include <iostream>
#include <nlohmann/json.hpp>

#include "annotator/functions/outline_file.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/given_files.h"

namespace whence {
namespace {

ExitCode run(int argc, char** argv) {
  CommandLine line("inline", "functions.onnx -o flat.onnx [--all]",
                   "Writes out the calls of functions that `whence functions` made, with the metadata that the nodes\n"
                   "had before. --all writes out those of others, too.");
  line.positional("model", "an ONNX file with functions");
  declare_model_output(line, "the file without them; may be the same file", Target::may_be_the_model);
  line.flag("all", "write out every function, whoever made it");
  line.example("whence inline bert.functions.onnx -o bert.flat.onnx");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const ModelOutput output = model_output(line);
  Diagnostics notes;
  const InlineReport report = unwrap(inline_file(line.text("model"), output, line.has("all")), notes);
  if (line.json()) {
    const nlohmann::ordered_json object = {{"file", output.path},
                                           {"calls", report.calls},
                                           {"functions", report.functions},
                                           {"nodes", report.nodes},
                                           {"diagnostics", nlohmann::ordered_json::parse(json_array(notes))}};
    std::cout << object.dump(2) << "\n";
    return ExitCode::ok;
  }
  print_text(notes);
  std::cout << output.path << ": " << report.calls << " calls of " << report.functions << " functions written out, "
            << report.nodes << " nodes\n";
  return ExitCode::ok;
}

}  // namespace

const Command inline_command = {"inline", "write out calls of ONNX functions", run};

}  // namespace whence
