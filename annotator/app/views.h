// The uses that look at a file and write nothing: show, explain, diff, the drawings, select, profile. Each takes paths
// and its options and returns what it found, with the notes of reading; printing is the caller's. Files with functions
// of whence's are seen with the calls written out. Everything throws Error.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "annotator/dialect/written_choice.h"
#include "annotator/functions/value_shapes.h"
#include "annotator/profile/module_profile.h"
#include "annotator/view/diff.h"
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
// `file`: a sidecar, an archive or an ONNX file. Errors: unknown_node when no module is selected; sidecar_mismatch;
// those of a file that cannot be read.
ShowReport show(const std::string& file, const ShowOptions& options);

struct ExplainReport {
  view::Explanation explanation;
  Diagnostics notes;
};
// `node`: the name of a node or of a value that it makes, as the file has it, else as `whence inline` would name it.
// `root`: where Explanation::file is given from. Errors: those of view::explain_node, read_onnx_summary and
// read_sidecar.
ExplainReport explain(const std::string& model, const std::string& node, const std::optional<std::string>& sidecar,
                      const SourceRoot& root);

struct DiffReport {
  view::ModelDiff diff;
  Diagnostics notes;
};
// `sidecar`: that of files that whence exported and that are not annotated. Errors: sidecar_mismatch when
// it belongs to neither file.
DiffReport diff(const std::string& a, const std::string& b, const std::optional<std::string>& sidecar);

struct Drawing {
  std::unique_ptr<const onnx_file::OnnxSummary> model;  // that `graph` refers to, as to the sidecar
  std::unique_ptr<const std::optional<Sidecar>> sidecar;
  view::NodeGraph graph;
  Diagnostics notes;
};
// The graph that every drawing starts from.
Drawing draw(const std::string& model, const std::optional<std::string>& sidecar);
// Types and sizes of the model's values, stated or inferred. Cost: that of ONNX's shape inference.
functions::ValueShapes shapes_of(const std::string& model);

struct SelectOptions {
  std::optional<std::string> sidecar;  // reads the stamps of a file that is not annotated
  view::NodeSelection selection;
  std::string format;  // the dialect to write them in; empty: none
  dialect::ChoiceOptions choice;
};
struct SelectReport {
  std::vector<view::SelectedNode> nodes;
  std::string text;  // in the dialect; empty without one
  Diagnostics notes;
};
// Errors: those of view::select_nodes and dialect::write_choice; usage when the nodes stand in functions, as their
// names are those of all calls.
SelectReport select(const std::string& model, const SelectOptions& options);

struct ProfileReport {
  profile::ModuleProfile profile;
  Diagnostics notes;
};
ProfileReport profile_run(const std::string& model, const profile::ProfileFiles& files);

}  // namespace whence::app
