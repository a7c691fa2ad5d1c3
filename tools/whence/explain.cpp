// `whence explain`: why a node of an ONNX file belongs to the module it names.
#include <iostream>
#include <optional>

#include "annotator/functions/flat_summary.h"
#include "annotator/view/explanation.h"
#include "schema/sidecar/sidecar.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/palette.h"

namespace whence {

using onnx_file::OnnxSummary;
using view::Explanation;

namespace {

// A node of the file, else one that a call of a function stands for, under the name that `whence inline` gives it.
Result<Explanation> explain_anywhere(const OnnxSummary& model, const std::string& name, const Program* program) {
  Result<Explanation> found = view::explain_node(model, name, program);
  if (found || !functions::has_cut_functions(model)) return found;
  const Result<OnnxSummary> flat = functions::read_flat_summary(model.file->path());
  return flat ? view::explain_node(*flat, name, program) : found;
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "explain", "model.onnx NODE [--sidecar F]",
      "Says which module, call and source line a node comes from, how sure that is, and what it rests on.");
  line.positional("file", "the ONNX file");
  line.positional("node", "a node's name, or the name of a value that it makes");
  line.option("sidecar,s", "FILE", "the sidecar: adds the recorded operations, calls and whole source stacks");
  line.removed("no-pager", no_pager);
  line.example("whence explain model.onnx /encoder/layer.0/attention/self/query/MatMul");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  Diagnostics notes;
  const OnnxSummary model = unwrap(onnx_file::read_onnx_summary(line.text("file")), notes);
  std::optional<Sidecar> sidecar;
  if (line.has("sidecar")) sidecar = unwrap(read_sidecar(line.text("sidecar")), notes);
  const Explanation explanation =
      unwrap(explain_anywhere(model, line.text("node"), sidecar ? &sidecar->program : nullptr), notes);
  print_text(notes);
  if (line.json()) {
    std::cout << view::to_json(explanation) << "\n";
  } else {
    std::cout << view::to_text(explanation, output_palette());
  }
  return ExitCode::ok;
}

}  // namespace

const Command explain_command = {"explain", "why a node belongs to the module it names", run};

}  // namespace whence
