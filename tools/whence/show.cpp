// `whence show`: the module tree of a sidecar, of an archive or of an annotated ONNX file.
#include <iostream>
#include <optional>

#include "annotator/app/input_file.h"
#include "annotator/functions/flat_summary.h"
#include "annotator/view/tree_text.h"
#include "schema/files/files.h"
#include "schema/sidecar/sidecar.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/given_sidecar.h"
#include "tools/whence/palette.h"

namespace whence {

using view::TreeSelection;

namespace {

TreeSelection parse_selection(const CommandLine& line) {
  TreeSelection selection;
  selection.select = line.text_or("select", "");
  if (line.has("depth")) {
    const std::int64_t depth = line.integer_or("depth", 0);
    if (depth < 0 || depth > 1000) {
      throw Error(Code::usage, "--depth takes a number of levels from 0 to 1000", "for example: --depth 2",
                  {.stage = "command line"});
    }
    selection.depth = static_cast<int>(depth);
  }
  return selection;
}

view::ModuleTree read_tree(const std::string& path, const CommandLine& line, Diagnostics& notes) {
  if (app::kind_of_file(path) != app::FileKind::onnx) return view::tree_of(app::read_program(path, notes));
  const onnx_file::OnnxSummary model = unwrap(functions::read_flat_summary(path), notes);
  const std::optional<Sidecar> sidecar = read_given_sidecar(line, {&model}, notes);
  return view::tree_of(model, sidecar ? &sidecar->program : nullptr);
}

ExitCode run(int argc, char** argv) {
  CommandLine line("show", "FILE [--sidecar F] [--depth N] [--select GLOB]",
                   "Shows the module tree of a sidecar or an archive, with the operations that each module recorded,\n"
                   "or of an annotated ONNX file, with the nodes that belong to each module. TorchScript archives\n"
                   "need LibTorch.");
  line.positional("file", "a sidecar (.whence.json), an archive (.pt2, .pt) or an ONNX file");
  line.option("sidecar,s", "FILE", "with an ONNX file: the sidecar that knows types, aliases and silent modules");
  line.option("depth,d", "N", "levels below the first one shown");
  line.option("select", "GLOB", "only modules that match, and what lies below them; * is one segment, ** any number");
  line.removed("no-pager", no_pager);
  line.example("whence show model.onnx --depth 2");
  line.example("whence show model.pt2");
  line.example("whence show model.whence.json --select 'encoder.layer.*.attention'");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::string path = line.text("file");
  const TreeSelection selection = parse_selection(line);
  Diagnostics notes;
  const view::ModuleTree tree = read_tree(path, line, notes);
  const std::vector<view::ShownRow> rows = view::select_rows(tree, selection);
  if (rows.empty()) {
    throw Error(Code::unknown_node, "no module matches '" + selection.select + "'",
                "a glob over whole segments, for example 'encoder.**' or '**.attention'",
                {.file = path, .stage = "show"});
  }
  print_text(notes);
  if (line.json()) {
    std::cout << to_json(tree, rows, base_name(path)) << "\n";
  } else {
    std::cout << to_text(tree, rows, output_palette());
  }
  return ExitCode::ok;
}

}  // namespace

const Command show_command = {"show", "the module tree of a sidecar, an archive or an annotated ONNX file", run};

}  // namespace whence
