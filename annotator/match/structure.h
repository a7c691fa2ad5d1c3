// Structure: an ONNX graph as the match engine sees it, foreign file and reference alike: operator classes, who makes
// and who reads each value, which values are the same but for their layout. No weights.
//
// Bodies of If, Loop and Scan and local functions are laid flat into one list of nodes: a body's nodes read outer
// values directly, and a function's nodes occur once for each call. `source` tells which nodes of the file they are.
// Guaranteed after finish(): nodes in topological order (`order`), every value's `loose` and every node's `kind` set.
// Cost: linear.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/match/index.h"

namespace whence::match {

enum class NodeKind : std::uint8_t {
  heavy,        // computes: what correspondences are found between
  transparent,  // the same elements in another layout or precision; also the bias of the product before it
  constant,     // depends on no graph input
};

template <Side S>
struct StructureUse {
  NodeIndex<S> node;  // none: a graph output
  std::int32_t slot = 0;
};

template <Side S>
struct StructureNode {
  std::string_view op_type, domain, name;
  FileNodeIndex source;  // several nodes share it when a function is called often
  std::uint16_t op_class = 0;
  bool commutative = false;
  NodeKind kind = NodeKind::heavy;
  bool holds_bodies = false;
  bool computes_sizes = false;                 // arithmetic on sizes of tensors alone
  std::uint64_t attributes = 0;                // digest of all but graphs
  std::uint64_t padding = 0;                   // digest of `pads` alone; 0 when nothing is padded
  std::vector<ValueIndex<S>> inputs, outputs;  // none where an optional one is left out
};

template <Side S>
struct StructureValue {
  std::string_view name;
  std::vector<NodeIndex<S>> producers;  // one, but for references made of several forms of one program
  std::vector<StructureUse<S>> uses;
  TensorIndex<S> tensor;  // an initializer, or a Constant node's value
  ValueIndex<S> loose;    // the value that this one is a rearrangement of; itself for results of heavy nodes
  bool constant = false;  // depends on no graph input
};

// An initializer: what can be said of it without looking at its bytes, and a number when it is one.
struct StructureTensor {
  int data_type = 0;  // onnx::TensorProto::DataType
  std::vector<std::int64_t> dims;
  std::string_view name;
  std::string_view bytes;  // as the file has them, empty when they lie in typed fields
  bool single = false;     // one element, `number`
  double number = 0;

  std::int64_t elements() const;
  bool is_vector() const;  // at most one axis longer than 1
};

template <Side S>
class Structure {
 public:
  using Node = NodeIndex<S>;
  using Value = ValueIndex<S>;
  using Tensor = TensorIndex<S>;
  using Use = StructureUse<S>;

  IndexedVector<Node, StructureNode<S>> nodes;
  IndexedVector<Value, StructureValue<S>> values;
  IndexedVector<Tensor, StructureTensor> tensors;
  std::vector<Value> inputs, outputs;
  std::vector<Node> order;  // every producer before its consumers

  Value add_value(std::string_view name);
  Node add_node(StructureNode<S> node);  // registers it with its inputs and outputs
  // Classifies nodes and values. Throws Error(corrupt_file) when the graph has a cycle; `file` is named in it.
  void finish(const std::string& file);

  // The values that a heavy node computes from: loose, none for constants, in the order of its inputs.
  std::vector<Value> data_inputs(Node node) const;
  Value loose(Value value) const { return value.exists() ? values[value].loose : Value(); }
  // The tensor that a constant value comes from, through casts and transposes; none when it is computed from several.
  Tensor root_tensor(Value value) const;
  // The heavy nodes that compute a loose value: one, but for references made of several forms.
  const std::vector<Node>& makers(Value loose) const { return makers_[loose]; }
  // Returns true for a scale or zero point that is found at run time.
  bool is_run_time_scale(Value value) const { return value.exists() && side_[value]; }
  // Returns true if an operand is constant and of more than one element, or computed from vectors:
  // weight / sqrt(variance + eps).
  bool reads_weights(Node node) const;
  // Returns true if the node multiplies or divides by one, adds or subtracts zero.
  bool has_no_effect(Node node) const;
  // For each node, how many stand before it in `order`.
  IndexedVector<Node, std::int32_t> positions() const;
  // Uses of a loose value by heavy nodes, through everything transparent. `loose` must be its own loose value.
  const std::vector<Use>& heavy_uses(Value loose) const { return heavy_uses_[loose]; }

 private:
  void sort(const std::string& file);
  void classify();
  bool adds_bias(const StructureNode<S>& node);
  bool cuts_nothing(const StructureNode<S>& node) const;
  bool gates_itself(const StructureNode<S>& node);
  bool scales_integer_product(const StructureNode<S>& node);
  bool computes_sizes(const StructureNode<S>& node) const;
  bool computes_per_channel(const StructureNode<S>& node) const;

  void same_but_layout(Value a, Value b);
  Value find_loose(Value value);

  IndexedVector<Value, std::vector<Use>> heavy_uses_;
  IndexedVector<Value, std::vector<Node>> makers_;
  IndexedVector<Value, bool> side_;         // values that are scales and zero points found at run time
  IndexedVector<Value, bool> per_channel_;  // constants that hold, or are computed from, one number for each channel
};

using ForeignStructure = Structure<Side::foreign>;
using ReferenceStructure = Structure<Side::reference>;

}  // namespace whence::match
