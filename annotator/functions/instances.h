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

// True for a Sequential and the like, which group modules and compute nothing themselves.
inline bool is_container(const Instance& instance) { return instance.type.starts_with("torch.nn.modules.container."); }

class Instances {
 public:
  Instances() = default;
  // Reads the calls from the nodes of a graph. If some nodes name a module without the calls above it, they belong to
  // the call that other nodes describe in full.
  explicit Instances(const std::vector<const onnx_file::OnnxNode*>& nodes);

  // Returns the call that a node belongs to; no_instance when its module is not known. A node of which only an
  // enclosing module is known belongs to the call of that module.
  InstanceId of_node(std::size_t index) const { return of_nodes_[index]; }

  const Instance& operator[](InstanceId id) const { return all_[id]; }
  std::size_t size() const { return all_.size(); }
  // True when `inner` is `outer`, or was called in it, at any depth.
  bool within(InstanceId inner, InstanceId outer) const;
  // Returns the call at depth `depth` in which `inner` was made; no_instance when `inner` is less deep.
  InstanceId ancestor(InstanceId inner, int depth) const;
  bool is_module(std::string_view path) const;  // true if a call of that module exists

 private:
  void fill_types();
  InstanceId child(InstanceId parent, const std::string& path, int call, const std::string& type);

  std::vector<Instance> all_;
  std::vector<InstanceId> of_nodes_;
  std::map<std::tuple<InstanceId, int, int>, InstanceId> children_;  // by caller, number of the path, call
  std::map<std::string, int, std::less<>> paths_;                    // numbers of the paths
};

}  // namespace whence::functions
