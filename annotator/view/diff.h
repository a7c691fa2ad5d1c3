// ModelDiff: compares two ONNX files module by module: nodes, parameters, and what became of each node. The files are
// ones that annotate wrote, for instance before and after a tool; nodes without a module have a row of their own.
// Nodes that both files have are compared with their attributes and the content of their weights (node_changes.h), and
// with the nodes whose results they read.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/text/table.h"
#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence::view {

// `fused` is a node of the second file that alone or with others took the place of several nodes of the first, which
// then are not `removed`; `replaced` one that alone or with others took the place of one. `changed`, `renamed` and
// `moved` are nodes that both files have, with other attributes, weights or inputs, under another name or in another
// module.
enum class Change : std::uint8_t { added, removed, fused, replaced, changed, renamed, moved };
inline constexpr std::size_t change_count = 7;
std::string_view name_of(Change change);

struct ChangedNode {
  Change change = Change::added;
  std::string op_type;
  std::string name_a,
      name_b;  // the node's, or of its first output when it has none; empty where the file has no such node
  std::vector<std::string> modules_a, modules_b;  // empty: no module is known
  bool inserted = false;                          // an added node that a tool put there for the operators around it
  std::vector<std::string> fused;                 // nodes of the first file that it stands for, "MatMul /query/MatMul"
  std::vector<std::string> differences;           // "epsilon 1e-05 -> 0.1"; changed nodes have some
};

struct ModuleDiff {
  std::optional<std::string> path;  // "" is the root; none: the nodes without a module
  int level = 0;
  std::int64_t nodes_a = 0, nodes_b = 0;             // at and below; a node of several modules counts once
  std::int64_t own_a = 0, own_b = 0;                 // nodes of the module itself
  std::int64_t parameters_a = 0, parameters_b = 0;   // elements that nodes at and below read
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

// `program`: the sidecar's, to look up the stamps of files that whence exported and that are not annotated; may be
// null. A parameter is an initializer of more than one element that holds neither indices, truth values nor text.
ModelDiff diff_models(const onnx_file::OnnxSummary& a, const onnx_file::OnnxSummary& b, const Program* program);

// Chooses the parts that the text shows; JSON (schema/diff.schema.json) always holds everything.
struct DiffText {
  std::optional<int> depth;   // levels of modules shown; none: all
  bool every_module = false;  // shows modules without a difference, too
  bool every_node = false;    // shows more than the first few of each kind of change
};
std::string to_text(const ModelDiff& diff, const DiffText& wanted, const text::Palette& palette);
std::string to_json(const ModelDiff& diff);

}  // namespace whence::view
