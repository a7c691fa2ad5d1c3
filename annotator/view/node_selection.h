// Selects nodes of an annotated file by module, for lists of nodes that other tools read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::view {

struct NodeSelection {
  std::vector<std::string> modules;   // patterns of paths (text/patterns.h): each means a module and all below it
  std::vector<std::string> excluded;  // likewise
  std::vector<std::string> op_types;  // patterns of names, as alternatives; empty: all
  std::vector<std::string> types;     // classes of modules, whole or their last name; beside those of `modules`

  bool all_modules() const { return modules.empty() && types.empty(); }
};

struct SelectedNode {
  std::string name, op_type, module;
  std::vector<std::string> modules;  // every module that a fused node stands for
  origin::Confidence confidence = origin::Confidence::unattributed;
  bool nested = false;               // stands in the body of another node
  std::vector<std::string> outputs;  // without the absent ones
  std::size_t inputs = 0;            // up to the last that is there
};

// Returns nodes of the graph and its bodies in file order, those of the root if a glob matches it. For a node of
// several modules, one that matches is enough. Throws Error(usage) for a glob or class that matches no module, and for
// operator types of which no node has one, with the nearest names. `recorded` may be null.
std::vector<SelectedNode> select_nodes(const onnx_file::OnnxSummary& model, const NodeSelection& selection,
                                       const metadata::Recorded* recorded);

// Counts the nodes that may belong to the selection besides: of the one, only a module around a selected one is known
// (`ancestor`), of the other none.
std::int64_t count_possible_nodes(const onnx_file::OnnxSummary& model, const NodeSelection& selection,
                                  const metadata::Recorded* recorded);

}  // namespace whence::view
