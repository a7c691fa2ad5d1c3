// Writes drawings to a file or to standard output.
#include "tools/whence/drawing_command.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "annotator/text/words.h"
#include "schema/files/files.h"
#include "tools/whence/printing.h"

namespace whence {

void declare_drawing(CommandLine& line, const DrawingKind& kind) {
  line.positional("file", "the ONNX file");
  line.output("output,o", "the file to write; standard output by default");
  line.option("sidecar,s", "FILE",
              "the sidecar: adds the types of modules, and reads stamps of files not yet annotated");
  line.example(std::string("whence ") + kind.command + " model.annotated.onnx -o " + kind.example);
}

ExitCode put_drawing(const CommandLine& line, const app::Drawing& drawing,
                     const std::function<void(const view::PutText&)>& write) {
  const std::string output = line.text_or("output", "");
  if (line.json() && output.empty()) {
    throw Error(Code::usage, "--json describes the written file, and without -o no file is written", "pass -o FILE",
                {.stage = "command line"});
  }
  const view::NodeGraph& graph = drawing.graph;
  if (output.empty()) {
    print_text(drawing.notes);
    write([](std::string_view text) { std::cout << text; });
    return ExitCode::ok;
  }
  AtomicFile file(output);
  write([&](std::string_view text) { file.write(text); });
  file.commit();
  if (line.json()) {
    const nlohmann::ordered_json object = {{"file", output},
                                           {"nodes", graph.nodes.size()},
                                           {"modules", graph.tree.rows.size()},
                                           {"edges", graph.index.edges().size()},
                                           {"size", size_of_file(output)}};
    print_json(object, drawing.notes);
    return ExitCode::ok;
  }
  print_text(drawing.notes);
  std::cout << output << ": " << text::counted(graph.nodes.size(), "node") << " in "
            << text::counted(graph.tree.rows.size(), "module") << ", "
            << text::counted(graph.index.edges().size(), "edge") << "\n";
  return ExitCode::ok;
}

ExitCode write_drawing(int argc, char** argv, const DrawingKind& kind) {
  CommandLine line(kind.command, "model.onnx [-o FILE] [--sidecar F]", kind.description);
  declare_drawing(line, kind);
  if (!line.parse(argc, argv)) return ExitCode::ok;
  const app::Drawing drawing = app::draw(line.text("file"), line.optional_text("sidecar"));
  return put_drawing(line, drawing, [&](const view::PutText& put) { kind.write(drawing.graph, put); });
}

}  // namespace whence
