// ModuleTree: the modules of a model, with counts of what belongs to each: operations if the tree was made from a
// sidecar, nodes if it was made from an annotated ONNX file. Rows stand in depth-first order, a module before its
// children.
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
  std::string type;  // class, "torch.nn.modules.linear.Linear"; empty when the file does not say
  std::vector<std::string> aliases;
  std::optional<std::int64_t> calls;              // unknown if the tree is of an ONNX file without call numbers
  std::int64_t own = 0;                           // operations or nodes of the module itself
  std::int64_t total = 0;                         // at and below; a node of several modules counts once
  std::map<std::string, std::int64_t> operators;  // its own, by type
  std::int64_t parameters = 0;                    // elements of all distinct parameters at and below it
  std::optional<std::int64_t> trainable;          // elements of trainable ones; unknown for an ONNX file
};

struct ModuleTree : origin::ModuleTree<ModuleRow> {
  bool of_nodes = false;          // false: rows count recorded operations
  bool of_weights = false;        // parameters are what nodes read from the file, as it is stored there
  std::int64_t count = 0;         // all operations or nodes
  std::int64_t unattributed = 0;  // nodes without a module
  std::int64_t by_pytorch = 0;    // nodes whose module is read from PyTorch's own keys
};

ModuleTree tree_of(const Program& program);

// `program` may be null. With it the tree has every module, also those without a node, and their types, aliases and
// parameters; without it, those that the nodes name, types from PyTorch's keys, and as parameters the elements of
// the initializers that their nodes read (parameters_read.h; buffers among them).
ModuleTree tree_of(const onnx_file::OnnxSummary& model, const Program* program);

// The class of each module as far as the file or the program, which may be null, says it, by qualified name.
std::map<std::string, std::string> module_types(const onnx_file::OnnxSummary& model, const Program* program);

// The rows to show: all when `select` is empty, else the modules that match the glob and what lies below them, down
// to `depth` levels below the first row shown of each branch (nullopt: all).
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
