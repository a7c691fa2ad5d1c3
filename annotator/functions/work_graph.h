// The outermost graph of a file while parts of it are cut out: nodes in topological order, values as numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "annotator/functions/instances.h"
#include "annotator/functions/model_parts.h"

namespace whence::functions {

using WorkValueId = std::int32_t;

struct WorkNode {
  onnx::NodeProto node;
  InstanceId instance = no_instance;
  std::vector<WorkValueId> reads;   // inputs and what bodies capture, distinct
  std::vector<WorkValueId> writes;  // by output; -1 for one that is left out
};

struct WorkValue {
  std::string name;
  std::int32_t producer = -1;          // node
  std::int32_t initializer = -1;       // index into ModelParts::initializers
  bool input = false, output = false;  // of the graph
  bool was_read = false;               // before anything was replaced
  std::vector<std::int32_t> readers;
};

class WorkGraph {
 public:
  // Takes the nodes out of `parts`, which must outlive the graph. Errors: corrupt_file when the nodes are in a cycle.
  explicit WorkGraph(ModelParts& parts);

  const ModelParts& parts() const { return parts_; }
  const Instances& instances() const { return instances_; }
  const std::vector<WorkNode>& nodes() const { return nodes_; }
  const WorkValue& value(WorkValueId id) const { return values_[id]; }
  WorkValueId find(const std::string& name) const;  // -1 when there is no such value

  // True when something other than the nodes that `inside` accepts needs the value: a node, or the model's caller.
  template <class Inside>
  bool needed_outside(WorkValueId id, const Inside& inside) const {
    const WorkValue& value = values_[id];
    return value.output || !std::ranges::all_of(value.readers, inside);
  }

  // A small tensor that is known: an initializer within the file or a Constant node; null for all else.
  const onnx::TensorProto* constant(WorkValueId id) const;
  // By node: whether it computes the same whatever the model is given.
  std::vector<char> constant_nodes() const;

  struct Replacement {
    std::vector<std::int32_t> nodes;  // a convex set
    onnx::NodeProto by;
    InstanceId instance = no_instance;
  };
  // Replaces sets of nodes that do not meet, each by one node. Numbers of nodes change, those of values stay.
  void replace(std::vector<Replacement> replacements);

  // The nodes into the file again, without value_info of values that are gone and initializers that nothing reads any
  // more.
  void put_back();

 private:
  WorkValueId intern(const std::string& name);
  void add(onnx::NodeProto node, InstanceId instance);
  void index();  // sorts the nodes and finds producers and readers

  ModelParts& parts_;
  Instances instances_;
  std::vector<WorkNode> nodes_;
  std::vector<WorkValue> values_;
  std::unordered_map<std::string, WorkValueId> ids_;
  mutable std::unordered_map<WorkValueId, onnx::TensorProto> constants_;
};

}  // namespace whence::functions
