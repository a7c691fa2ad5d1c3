// ModuleTree: the modules of a model with counts: of operations if the tree was made from a sidecar, of nodes if it was
// made from an annotated ONNX file. Rows are in depth-first order, a module before its children.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/origin/module_tree.h"
#include "schema/program.h"

namespace whence::view {

struct ModuleRow : origin::ModulePlace {
  std::string type;  // class, "torch.nn.modules.linear.Linear"; empty if unknown
  std::vector<std::string> aliases;
  std::optional<std::int64_t> calls;              // unknown for an ONNX file without call numbers
  std::int64_t own = 0;                           // operations or nodes of the module itself
  std::int64_t total = 0;                         // at and below; a node of several modules counts once
  std::map<std::string, std::int64_t> operators;  // counts of the module's own operators, by type
  std::int64_t parameters = 0;                    // elements of all distinct parameters at and below it
  std::optional<std::int64_t> trainable;          // elements of trainable parameters; unknown for an ONNX file
};

struct ModuleTree : origin::ModuleTree<ModuleRow> {
  bool of_nodes = false;          // false: rows count recorded operations
  bool of_weights = false;        // parameters are initializers of the file that nodes read, as stored
  std::int64_t count = 0;         // all operations or nodes
  std::int64_t unattributed = 0;  // nodes without a module
  std::int64_t by_exporter = 0;   // nodes with a module from the exporter's own keys
};

ModuleTree tree_of(const Program& program);

// With `program`, the tree has every module, also modules without a node, with types, aliases and parameters. If it is
// null, the tree has the modules that nodes name, types from PyTorch's keys, and as parameters the elements of the
// initializers that their nodes read, buffers included (parameters_read.h).
ModuleTree tree_of(const onnx_file::OnnxSummary& model, const Program* program);

// Returns the class of each module by qualified name, if the file or the program (may be null) has it.
std::map<std::string, std::string> module_types(const onnx_file::OnnxSummary& model, const Program* program);

// Selects the rows to show: all if `select` is empty, else the modules that match the glob and the modules below them,
// down to `depth` levels below the first shown row of each branch (nullopt: all).
struct TreeSelection {
  std::string select;
  std::optional<int> depth;
};
struct ShownRow {
  std::size_t row = 0;
  int indent = 0;
};
std::vector<ShownRow> select_rows(const ModuleTree& tree, const TreeSelection& selection);

}  // namespace whence::view
