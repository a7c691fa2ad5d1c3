// `whence diff`: compares two ONNX files, module by module.
#include "annotator/view/diff.h"

#include <iostream>

#include "annotator/app/views.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/palette.h"

namespace whence {

namespace {

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "diff", "a.onnx b.onnx [--sidecar F] [--exit-code]",
      "Compares two annotated ONNX files: the nodes and parameters of each module, and which nodes were added,\n"
      "removed, fused, replaced, renamed or moved to another module, or have different attributes, weights\n"
      "or inputs.");
  line.positional("a", "an ONNX file");
  line.positional("b", "the file to compare it with, for example the output of an optimiser");
  line.option("sidecar,s", "FILE", "the sidecar, for files that whence exported but did not annotate");
  line.option("depth,d", "N", "levels of modules");
  line.flag("all", "also modules without a difference");
  line.flag("nodes", "every node that changed, not only the first few");
  line.flag("exit-code", "exit with 1 if there is a difference");
  line.removed("no-pager", no_pager);
  line.example("whence diff model.onnx optimised.onnx --depth 2");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const view::DiffText extent{.depth = line.depth(), .every_module = line.has("all"), .every_node = line.has("nodes")};
  const auto [diff, notes] = app::diff(line.text("a"), line.text("b"), line.optional_text("sidecar"));
  print_text(notes);
  if (line.json()) {
    std::cout << view::to_json(diff) << "\n";
  } else {
    std::cout << view::to_text(diff, extent, output_palette());
  }
  return line.has("exit-code") && !diff.same() ? ExitCode::findings : ExitCode::ok;
}

}  // namespace

const Command diff_command = {"diff", "compare two ONNX files, module by module", run};

}  // namespace whence
