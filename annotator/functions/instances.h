// Which call of which module each node of an annotated file belongs to: the tree of module calls, read from the
// nodes' metadata, whoever wrote it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::functions {

using InstanceId = std::int32_t;
inline constexpr InstanceId no_instance = -1;

// One call of one module.
struct Instance {
  InstanceId parent = no_instance;  // the call that it was made in; none for the root
  std::string path;                 // qualified name; "" is the root
  std::string type;                 // class, "torch.nn.modules.linear.Linear"; empty when the file does not say
  int call = 0;
  int depth = 0;  // calls above it
};

// A Sequential and its like: how a model is put together, not what it is made of.
inline bool is_container(const Instance& instance) { return instance.type.starts_with("torch.nn.modules.container."); }

class Instances {
 public:
  Instances() = default;
  // Of the nodes of a graph. A module that some nodes name without saying how it was reached is the one that others
  // reached.
  explicit Instances(const std::vector<const onnx_file::OnnxNode*>& nodes);

  // The call that a node belongs to; no_instance when its module is not known. Nodes whose module is only known to be
  // somewhere below belong to the call they are known to be in.
  InstanceId of_node(std::size_t index) const { return of_nodes_[index]; }

  const Instance& operator[](InstanceId id) const { return all_[id]; }
  std::size_t size() const { return all_.size(); }
  // True when `inner` is `outer`, or was called in it, at whatever depth.
  bool within(InstanceId inner, InstanceId outer) const;
  // The call of depth `depth` that `inner` was made in; no_instance when it is not that deep.
  InstanceId ancestor(InstanceId inner, int depth) const;
  bool is_module(std::string_view path) const;  // some call is of the module of that name

 private:
  void fill_types();
  InstanceId child(InstanceId parent, const std::string& path, int call, const std::string& type);

  std::vector<Instance> all_;
  std::vector<InstanceId> of_nodes_;
  std::map<std::tuple<InstanceId, int, int>, InstanceId> children_;  // by caller, number of the path, call
  std::map<std::string, int, std::less<>> paths_;                    // numbers
};

}  // namespace whence::functions
