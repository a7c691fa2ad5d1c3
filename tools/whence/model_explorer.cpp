// `whence model-explorer`: writes the modules and nodes of a file, or the nodes' confidence, for Model Explorer.
#include "annotator/view/model_explorer.h"

#include "tools/whence/drawing_command.h"

namespace whence {

namespace {

constexpr DrawingKind model_explorer_kind = {
    "model-explorer", "model.graph.json",
    "Writes the graph for Model Explorer: a layer for each module and call, nodes with their confidence, source\n"
    "line and the class of their module. Model Explorer opens this file directly; `model-explorer --extensions\n"
    "whence.model_explorer model.onnx` opens ONNX files.",
    nullptr};

ExitCode run(int argc, char** argv) {
  CommandLine line(model_explorer_kind.command, "model.onnx [-o FILE] [--confidence] [--sidecar F]",
                   model_explorer_kind.description);
  declare_drawing(line, model_explorer_kind);
  line.flag("confidence",
            "write node data instead of the graph: colours by confidence (model-explorer --node_data_paths)");
  line.example("whence model-explorer model.annotated.onnx --confidence -o confidence.json");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const bool draws = !line.has("confidence");
  // Infers shapes first, because this needs the most memory.
  const auto shapes = draws ? app::shapes_of(line.text("file")) : functions::ValueShapes();
  const app::Drawing drawing = app::draw(line.text("file"), line.optional_text("sidecar"));
  if (!draws) {
    return put_drawing(line, drawing, [&](const view::PutText& put) {
      view::write_confidence_data(*drawing.model, drawing.graph, put);
    });
  }
  return put_drawing(line, drawing, [&](const view::PutText& put) {
    view::write_model_explorer(*drawing.model, drawing.graph, shapes, put);
  });
}

}  // namespace

const Command model_explorer_command = {"model-explorer", "write the graph and its confidence, for Model Explorer",
                                        run};

}  // namespace whence
