// The use cases that read a file and write nothing: show, explain, drawings, select, profile. Each takes paths
// and options, and returns its result with the notes of reading; the caller prints. whence's functions are read
// inlined. All functions throw Error.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "annotator/dialect/written_choice.h"
#include "annotator/functions/value_shapes.h"
#include "annotator/profile/module_profile.h"
#include "annotator/view/explanation.h"
#include "annotator/view/module_tree.h"
#include "annotator/view/node_graph.h"
#include "annotator/view/node_selection.h"
#include "schema/sidecar/sidecar.h"

namespace whence::app {

struct ShowOptions {
  std::optional<std::string> sidecar;  // adds modules and types to an ONNX file
  view::TreeSelection selection;
};
struct ShowReport {
  view::ModuleTree tree;
  std::vector<view::ShownRow> rows;  // never empty
  Diagnostics notes;
};
// `file`: a sidecar, an archive or an ONNX file. Errors: unknown_node if no module is selected; sidecar_mismatch; as
// reading the file.
ShowReport show(const std::string& file, const ShowOptions& options);

struct ExplainReport {
  view::Explanation explanation;
  Diagnostics notes;
};
// `node`: the name of a node or of its output, in the file or as `whence inline` would name it. `root`: the folder to
// which Explanation::file is relative. Errors: as view::explain_node(), read_onnx_summary() and read_sidecar().
ExplainReport explain(const std::string& model, const std::string& node, const std::optional<std::string>& sidecar,
                      const SourceRoot& root);

struct Drawing {
  std::unique_ptr<const onnx_file::OnnxSummary> model;  // `graph` refers to the model and the sidecar
  std::unique_ptr<const std::optional<Sidecar>> sidecar;
  view::NodeGraph graph;
  Diagnostics notes;
};
// Returns the graph from which every drawing starts.
Drawing draw(const std::string& model, const std::optional<std::string>& sidecar);
// Returns types and sizes of the model's values, stated or inferred. Cost: ONNX's shape inference.
functions::ValueShapes shapes_of(const std::string& model);

struct SelectOptions {
  std::optional<std::string> sidecar;  // reads the stamps of a file that is not annotated
  view::NodeSelection selection;
  std::string format;  // the dialect of the text; empty: no text
  dialect::ChoiceOptions choice;
};
struct SelectReport {
  std::vector<view::SelectedNode> nodes;
  std::string text;  // in the dialect; empty without one
  Diagnostics notes;
};
// Errors: as view::select_nodes() and dialect::write_choice(); usage if the nodes are in functions, because all calls
// of a function share their names.
SelectReport select(const std::string& model, const SelectOptions& options);

struct ProfileReport {
  profile::ModuleProfile profile;
  Diagnostics notes;
};
ProfileReport profile_run(const std::string& model, const profile::ProfileFiles& files);

}  // namespace whence::app
