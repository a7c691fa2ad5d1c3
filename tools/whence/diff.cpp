// `whence diff`: two ONNX files side by side, module by module.
#include "annotator/view/diff.h"

#include <iostream>
#include <optional>

#include "annotator/functions/flat_summary.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/given_sidecar.h"
#include "tools/whence/palette.h"

namespace whence {

using view::DiffText;

namespace {

DiffText parse_options(const CommandLine& line) {
  DiffText options{.depth = {}, .every_module = line.has("all"), .every_node = line.has("nodes")};
  if (line.has("depth")) {
    const std::int64_t depth = line.integer_or("depth", 0);
    if (depth < 0 || depth > 1000) {
      throw Error(Code::usage, "--depth takes a number of levels from 0 to 1000", "for example: --depth 2",
                  {.stage = "command line"});
    }
    options.depth = static_cast<int>(depth);
  }
  return options;
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "diff", "a.onnx b.onnx [--sidecar F] [--exit-code]",
      "Shows two annotated ONNX files side by side: the nodes and parameters of each module, and which nodes\n"
      "were added, removed, fused, renamed or moved to another module. Weights are counted, not compared.");
  line.positional("a", "an ONNX file");
  line.positional("b", "the file to hold against it, for example what an optimiser made of it");
  line.option("sidecar,s", "FILE", "the sidecar of files that whence exported and that are not annotated");
  line.option("depth,d", "N", "levels of modules");
  line.flag("all", "also modules without a difference");
  line.flag("nodes", "every node that changed, not the first few");
  line.flag("exit-code", "exit with 1 when there is a difference");
  line.removed("no-pager", no_pager);
  line.example("whence diff model.onnx optimised.onnx --depth 2");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const DiffText options = parse_options(line);
  Diagnostics notes;
  const onnx_file::OnnxSummary a = unwrap(functions::read_flat_summary(line.text("a")), notes);
  const onnx_file::OnnxSummary b = unwrap(functions::read_flat_summary(line.text("b")), notes);
  const std::optional<Sidecar> sidecar = read_given_sidecar(line, {&a, &b}, notes);
  const view::ModelDiff diff = view::diff_models(a, b, sidecar ? &sidecar->program : nullptr);
  print_text(notes);
  if (line.json()) {
    std::cout << view::to_json(diff) << "\n";
  } else {
    std::cout << view::to_text(diff, options, output_palette());
  }
  return line.has("exit-code") && !diff.same() ? ExitCode::findings : ExitCode::ok;
}

}  // namespace

const Command diff_command = {"diff", "two ONNX files side by side, module by module", run};

}  // namespace whence
