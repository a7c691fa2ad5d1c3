// ModelDiff: compares two annotated ONNX files module by module, for instance before and after a tool: nodes,
// parameters, and the change of each node. Nodes without a module have a row of their own. For nodes in both files,
// compares attributes, the content of weights (node_changes.h), and the nodes that produce the inputs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/text/table.h"
#include "annotator/view/diff_pairs.h"
#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence::view {

// `fused`: a node of the second file that, possibly with other nodes, replaced several nodes of the first; those nodes
// are not `removed`. `replaced`: the same for a single node of the first file. `changed`, `renamed` and `moved`: a node
// in both files, with other attributes, weights or inputs, under another name, or in another module.
enum class Change : std::uint8_t { added, removed, fused, replaced, changed, renamed, moved };
inline constexpr std::size_t change_count = 7;
std::string_view name_of(Change change);

struct ChangedNode {
  Change change = Change::added;
  std::string op_type;
  std::string name_a,
      name_b;  // the node's name, else its first output's; empty if the file lacks the node
  std::vector<std::string> modules_a, modules_b;  // empty: no module is known
  bool inserted = false;                          // an added node that a tool inserted for the operators around it
  std::vector<std::string> fused;                 // nodes of the first file that it replaced, "MatMul /query/MatMul"
  std::vector<std::string> differences;           // "epsilon 1e-05 -> 0.1"; only for changed nodes
  std::optional<std::size_t> a, b;                // numbers of the nodes in Comparison
};

struct ModuleDiff {
  std::optional<std::string> path;  // "" is the root; nullopt: the nodes without a module
  int level = 0;
  std::int64_t nodes_a = 0, nodes_b = 0;             // at and below; a node of several modules counts once
  std::int64_t own_a = 0, own_b = 0;                 // nodes of the module itself
  std::int64_t parameters_a = 0, parameters_b = 0;   // elements of parameters that nodes at and below read
  std::array<std::int64_t, change_count> changes{};  // at and below

  std::int64_t operator[](Change change) const { return changes[static_cast<std::size_t>(change)]; }
  bool same() const;
};

struct ModelDiff {
  std::string file_a, file_b;       // base names
  std::vector<ModuleDiff> modules;  // depth first; the root is first, the row without a module last, if any
  std::vector<ChangedNode> nodes;   // by kind of change, then in file order
  ModuleDiff all;                   // both files as a whole
  std::vector<std::string> model;   // other differences: "opset 20 -> 21", "output y added"
  Diagnostics notes;                // weights that could not be read

  bool same() const { return all.same() && model.empty(); }
};

// `program` comes from the sidecar and resolves the stamps of exported files that are not annotated; may be null. A
// parameter is an initializer of more than one element, except int64, bool and string tensors.
ModelDiff diff_models(const onnx_file::OnnxSummary& a, const onnx_file::OnnxSummary& b, const Program* program);

// The differences with the nodes of both files, in file order, and which of them correspond, for views that show more
// than differences.
struct Comparison {
  DiffNodes a, b;
  NodePairs pairs;
  ModelDiff diff;
};
Comparison compare_models(const onnx_file::OnnxSummary& a, const onnx_file::OnnxSummary& b, const Program* program);

// Selects the parts that the text shows; the JSON (schema/diff.schema.json) is always complete.
struct DiffText {
  std::optional<int> depth;   // levels of modules shown; nullopt: all
  bool every_module = false;  // also shows modules without a difference
  bool every_node = false;    // shows all nodes, not only the first few of each kind of change
};
std::string to_text(const ModelDiff& diff, const DiffText& options, const text::Palette& palette);
std::string to_json(const ModelDiff& diff);

}  // namespace whence::view
