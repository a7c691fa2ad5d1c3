#include "tools/whence/drawing_command.h"

#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "annotator/functions/flat_summary.h"
#include "schema/files/files.h"
#include "tools/whence/given_sidecar.h"
#include "tools/whence/printing.h"

namespace whence {

ExitCode write_drawing(int argc, char** argv, const DrawingKind& kind) {
  CommandLine line(kind.command, "model.onnx [-o FILE] [--sidecar F]", kind.description);
  line.positional("file", "the ONNX file");
  line.output("output,o", "the file to write; standard output by default");
  line.option("sidecar,s", "FILE",
              "the sidecar: adds the types of modules, and reads stamps of files not yet annotated");
  line.example(std::string("whence ") + kind.command + " model.annotated.onnx -o " + kind.example);
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::string input = line.text("file"), output = line.text_or("output", "");
  if (line.json() && output.empty()) {
    throw Error(Code::usage, "--json describes the file that was written, and without -o there is none", "give -o FILE",
                {.stage = "command line"});
  }
  Diagnostics notes;
  const onnx_file::OnnxSummary model = unwrap(functions::read_flat_summary(input), notes);
  const std::optional<Sidecar> sidecar = read_given_sidecar(line, {&model}, notes);
  const view::NodeGraph graph = view::node_graph_of(model, sidecar ? &sidecar->program : nullptr);
  if (output.empty()) {
    print_text(notes);
    kind.write(graph, [](std::string_view text) { std::cout << text; });
    return ExitCode::ok;
  }
  AtomicFile file(output);
  kind.write(graph, [&](std::string_view text) { file.write(text); });
  file.commit();
  if (line.json()) {
    const nlohmann::ordered_json object = {{"file", output},
                                           {"nodes", graph.nodes.size()},
                                           {"modules", graph.tree.rows.size()},
                                           {"edges", graph.index.edges().size()},
                                           {"size", size_of_file(output)}};
    print_json(object, notes);
    return ExitCode::ok;
  }
  print_text(notes);
  std::cout << output << ": " << graph.nodes.size() << " nodes in " << graph.tree.rows.size() << " modules, "
            << graph.index.edges().size() << " edges\n";
  return ExitCode::ok;
}

}  // namespace whence
