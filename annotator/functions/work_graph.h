// WorkGraph: the outermost graph of a model while modules are cut out of it. Nodes are in topological order, each with
// the module call that it belongs to and the values that it reads and writes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "annotator/functions/instances.h"
#include "annotator/functions/model_parts.h"
#include "annotator/onnx_file/graph_index.h"

namespace whence::functions {

using onnx_file::ValueId;

struct WorkNode {
  const onnx_file::OnnxNode* node = nullptr;
  CallIndex instance;
  std::span<const ValueId> reads;   // inputs and outer values that bodies read, distinct
  std::span<const ValueId> writes;  // by index of the output; no_value if it is omitted
};

struct WorkValue {
  std::string_view name;
  std::int32_t producer = -1;             // index of the node
  std::int32_t initializer = -1;          // index into the initializers of ModelParts::graph
  bool input = false, output = false;     // graph input, graph output
  std::span<const std::int32_t> readers;  // nodes, ascending
};

class WorkGraph {
 public:
  // Sorts the nodes of `parts`, which must outlive the graph, and keeps their order as far as dependencies allow.
  // Without `with_calls` no node belongs to a call. Errors: corrupt_file for a cycle, or a value with two producers.
  explicit WorkGraph(ModelParts& parts, bool with_calls = true);

  const ModelParts& parts() const { return parts_; }
  const Instances& instances() const { return instances_; }
  const std::vector<WorkNode>& nodes() const { return nodes_; }
  const WorkValue& value(ValueId id) const { return values_[id]; }
  ValueId find(std::string_view name) const { return index_->find(name); }  // no_value if it does not exist
  std::size_t value_count() const { return values_.size(); }

  // Returns true if the value is a graph output, or if a node that `inside` does not accept reads it.
  template <class Inside>
  bool needed_outside(ValueId id, const Inside& inside) const {
    const WorkValue& value = values_[id];
    return value.output || !std::ranges::all_of(value.readers, inside);
  }

  // Returns the tensor of a small initializer in the file or of a Constant node; null for all other values.
  const onnx_file::OnnxTensor* constant(ValueId id) const;
  // Returns for each node 1 if its results do not depend on the model's inputs, else 0.
  std::vector<char> constant_nodes() const;

  struct Replacement {
    std::vector<std::int32_t> nodes;  // a convex set
    onnx::NodeProto replacement;
    CallIndex instance;
  };
  // Replaces disjoint sets of nodes with one node each. Node indices and value ids change.
  void replace(const std::vector<Replacement>& replacements);

  // Removes value_info of values that no longer exist, and initializers that nodes read before but no longer read.
  void drop_unread();

 private:
  void index();  // sorts the nodes and finds producers and readers
  void fill_nodes_and_values();
  void require_single_producers() const;
  std::vector<std::int32_t> sorted() const;
  void reorder(const std::vector<std::int32_t>& order);

  ModelParts& parts_;
  Instances instances_;
  std::vector<CallIndex> node_calls_;
  std::optional<onnx_file::GraphIndex> index_;
  std::vector<WorkNode> nodes_;
  std::vector<WorkValue> values_;
  std::vector<ValueId> reads_;
  std::vector<std::int32_t> readers_;
  std::vector<char> was_read_;  // by initializer: some node read it before any replacement
};

}  // namespace whence::functions
