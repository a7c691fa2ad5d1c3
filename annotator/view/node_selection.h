// Selects nodes of an annotated file by module, for lists of nodes that other tools read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::view {

struct NodeSelection {
  std::vector<std::string> modules;   // patterns of paths (text/patterns.h): select a module and all below it
  std::vector<std::string> excluded;  // patterns of paths: exclude a module and all below it
  std::vector<std::string> op_types;  // patterns of names, as alternatives; empty: all
  std::vector<std::string> types;     // classes of modules, in full or the last name; selected besides `modules`

  bool all_modules() const { return modules.empty() && types.empty(); }
};

struct SelectedNode {
  std::string name, op_type, module;
  std::vector<std::string> modules;  // every module of a fused node
  std::string primary;               // the module of its main operation
  origin::Confidence confidence = origin::Confidence::unattributed;
  bool nested = false;               // is in the body of another node
  std::vector<std::string> outputs;  // without omitted outputs
  std::size_t inputs = 0;            // number of inputs, up to the last that is not omitted
};

// Returns the selected nodes of the graph and its bodies in file order; nodes of the root only if a glob matches it. A
// node of several modules is selected if one of them matches, and excluded if the module of its main operation is.
// Throws Error(usage), with the nearest names, for a glob
// or class that matches no module, and for operator types that no node has. `recorded` may be null.
std::vector<SelectedNode> select_nodes(const onnx_file::OnnxSummary& model, const NodeSelection& selection,
                                       const metadata::Recorded* recorded);

// Counts the further nodes that may belong to the selection: nodes attributed to a module around a selected module with
// confidence `ancestor`, and nodes without a module.
std::int64_t count_possible_nodes(const onnx_file::OnnxSummary& model, const NodeSelection& selection,
                                  const metadata::Recorded* recorded);

}  // namespace whence::view
