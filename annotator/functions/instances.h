// Instances: the tree of module calls of an annotated file, and the call that each node belongs to. Read from the
// nodes' metadata, whichever tool wrote it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/origin/call_tree.h"
#include "schema/flat_map.h"

namespace whence::functions {

using origin::CallIndex;
using origin::ModuleCall;

class Instances : public origin::CallTree {
 public:
  Instances() = default;
  // Reads the calls from the nodes of a graph. If some nodes name a module without the calls above it, they belong to
  // the call that other nodes describe in full.
  explicit Instances(const std::vector<const onnx_file::OnnxNode*>& nodes);

  // Returns the call that a node belongs to; none when its module is not known. A node of which only an
  // enclosing module is known belongs to the call of that module.
  CallIndex of_node(std::size_t index) const { return of_nodes_[index]; }
  bool is_module(std::string_view path) const;  // true if a call of that module exists

 private:
  void fill_types();
  CallIndex child(CallIndex parent, const std::string& path, int call, const std::string& type);

  std::vector<CallIndex> of_nodes_;
  std::map<std::tuple<CallIndex, int, int>, CallIndex> children_;  // by caller, number of the path, call
  FlatMap<std::string, int> paths_;                                // numbers of the paths
};

}  // namespace whence::functions
