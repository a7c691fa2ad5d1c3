// `whence show`: prints the module tree of a sidecar, an archive or an annotated ONNX file.
#include <iostream>

#include "annotator/app/views.h"
#include "annotator/view/tree_text.h"
#include "schema/files/files.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/palette.h"

namespace whence {

namespace {

ExitCode run(int argc, char** argv) {
  CommandLine line("show", "FILE [--sidecar F] [--depth N] [--select GLOB]",
                   "Shows the module tree of a sidecar or an archive, with the operations that each module recorded,\n"
                   "or of an annotated ONNX file, with the nodes that belong to each module. TorchScript archives\n"
                   "need LibTorch.");
  line.positional("file", "a sidecar (.whence.json), an archive (.pt2, .pt) or an ONNX file");
  line.option("sidecar,s", "FILE",
              "for an ONNX file: the sidecar, which adds types, aliases and modules without operations");
  line.option("depth,d", "N", "levels below the first one shown");
  line.option("select", "GLOB",
              "only modules that match, with all modules below; * is one segment, ** any number; or re:PATTERN");
  line.removed("no-pager", no_pager);
  line.example("whence show model.onnx --depth 2");
  line.example("whence show model.pt2");
  line.example("whence show model.whence.json --select 'encoder.layer.*.attention'");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::string path = line.text("file");
  const app::ShowReport report =
      app::show(path, {.sidecar = line.optional_text("sidecar"),
                       .selection = {.select = line.text_or("select", ""), .depth = line.depth()}});
  print_text(report.notes);
  if (line.json()) {
    std::cout << to_json(report.tree, report.rows, base_name(path)) << "\n";
  } else {
    std::cout << to_text(report.tree, report.rows, output_palette());
  }
  return ExitCode::ok;
}

}  // namespace

const Command show_command = {"show", "print the module tree of a sidecar, an archive or an annotated ONNX file", run};

}  // namespace whence
