// `whence explain`: why a node of an ONNX file belongs to the module it names.
#include <iostream>
#include <optional>

#include "annotator/view/explanation.h"
#include "schema/sidecar.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/pager.h"
#include "tools/whence/palette.h"

namespace whence {
namespace {

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "explain", "model.onnx NODE [--sidecar F]",
      "Says which module, call and source line a node comes from, how sure that is, and what it rests on.");
  line.positional("file", "the ONNX file");
  line.positional("node", "a node's name, or the name of a value that it makes");
  line.option("sidecar,s", "FILE", "the sidecar: adds the recorded operations, calls and whole source stacks");
  declare_pager(line);
  line.example("whence explain model.onnx /encoder/layer.0/attention/self/query/MatMul");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  Diagnostics notes;
  const OnnxSummary model = unwrap(read_onnx_summary(line.text("file")), notes);
  std::optional<Sidecar> sidecar;
  if (line.has("sidecar")) sidecar = unwrap(read_sidecar(line.text("sidecar")), notes);
  const Explanation explanation =
      unwrap(explain_node(model, line.text("node"), sidecar ? &sidecar->program : nullptr), notes);
  print_text(notes);
  if (line.json()) {
    std::cout << to_json(explanation) << "\n";
  } else {
    print_paged(to_text(explanation, output_palette()), line);
  }
  return ExitCode::ok;
}

}  // namespace

const Command explain_command = {"explain", "why a node belongs to the module it names", run};

}  // namespace whence
