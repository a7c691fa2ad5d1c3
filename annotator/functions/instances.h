// Instances: the tree of module calls of an annotated file, and the call that each node belongs to. Both are read from
// the nodes' metadata, whichever tool wrote it.
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
  // Reads the calls from the nodes of a graph. A node that names its module without the enclosing calls belongs to the
  // call that other nodes describe in full.
  explicit Instances(const std::vector<const onnx_file::OnnxNode*>& nodes);

  // Returns the call that a node belongs to; none if its module is unknown. If only an enclosing module is known, the
  // node belongs to the call of that module.
  CallIndex call_of_node(std::size_t index) const { return node_calls_[index]; }
  bool is_module(std::string_view path) const;  // true if the module is called

 private:
  void fill_types();
  CallIndex child(CallIndex parent, const std::string& path, int call, const std::string& type);

  std::vector<CallIndex> node_calls_;
  std::map<std::tuple<CallIndex, int, int>, CallIndex> children_;  // by caller, index of the path, call number
  FlatMap<std::string, int> paths_;                                // indices of the paths
};

}  // namespace whence::functions
