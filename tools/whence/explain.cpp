// `whence explain`: explains why a node of an ONNX file belongs to its module.
#include <iostream>

#include "annotator/app/views.h"
#include "annotator/view/explanation.h"
#include "schema/files/source_root.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/palette.h"

namespace whence {

namespace {

ExitCode run(int argc, char** argv) {
  CommandLine line("explain", "model.onnx NODE [--sidecar F]",
                   "Prints the module, call and source line that a node comes from, the confidence, and the evidence.");
  line.positional("file", "the ONNX file");
  line.positional_word("node", "a node's name, or the name of one of its outputs");
  line.option("sidecar,s", "FILE", "the sidecar: adds the recorded operations, calls and complete source stacks");
  line.option("source-root", "DIR",
              "the folder that paths of source files are relative to; the working folder by default");
  line.removed("no-pager", no_pager);
  line.example("whence explain model.onnx /encoder/layer.0/attention/self/query/MatMul");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const auto [explanation, notes] = app::explain(line.text("file"), line.text("node"), line.optional_text("sidecar"),
                                                 SourceRoot(line.text_or("source-root", "")));
  print_text(notes);
  if (line.json()) {
    std::cout << view::to_json(explanation) << "\n";
  } else {
    std::cout << view::to_text(explanation, output_palette());
  }
  return ExitCode::ok;
}

}  // namespace

const Command explain_command = {"explain", "explain why a node belongs to its module", run};

}  // namespace whence
