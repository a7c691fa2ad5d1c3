// Structure: the graph of the foreign file or of the reference, for matching: operator classes, the producers and
// readers of each value, and which values differ only in layout. Weights are not read.
//
// Bodies of If, Loop and Scan and local functions are flattened into one list of nodes: a body's nodes read outer
// values directly, and a function's nodes occur once for each call. `source` is the node's number in the file. After
// finish(), `order` is topological, and every value's `loose` and every node's `kind` are set. Cost: linear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/match/index.h"
#include "schema/short_list.h"

namespace whence::match {

enum class NodeKind : std::uint8_t {
  heavy,        // computes; correspondences are found between heavy nodes
  transparent,  // the same elements in another layout or precision; also the bias of the product before it
  constant,     // depends on no graph input
};

template <Side S>
struct StructureUse {
  NodeIndex<S> node;  // none: a graph output
  std::int32_t slot = 0;
};

template <Side S>
using StructurePorts = ShortList<ValueIndex<S>, 3>;
template <Side S>
using StructureMakers = ShortList<NodeIndex<S>, 3>;
template <Side S>
using StructureUses = ShortList<StructureUse<S>, 2>;

template <Side S>
struct StructureNode {
  std::string_view op_type, domain, name;
  FileNodeIndex source;  // several nodes share it when a function is called often
  std::uint16_t op_class = 0;
  bool commutative = false;
  NodeKind kind = NodeKind::heavy;
  bool holds_bodies = false;
  bool computes_sizes = false;        // arithmetic only on sizes of tensors
  bool states_activation = false;     // an operator of a runtime that ends in the activation it names
  bool scales = false;                // a product of a runtime that absorbed a scaling: alpha
  bool transposes = false;            // an operator of a runtime that absorbed a Transpose: channels_last
  bool transposes_operand = false;    // a product that transposes an operand: transA
  std::uint64_t attributes = 0;       // digest of all attributes except graphs
  std::uint64_t padding = 0;          // digest of `pads`; 0 if nothing is padded
  StructurePorts<S> inputs, outputs;  // none for an omitted optional one
};

template <Side S>
struct StructureValue {
  std::string_view name;
  StructureMakers<S> producers;  // one, except in a reference with several forms of a program
  StructureUses<S> uses;
  TensorIndex<S> tensor;  // of an initializer or a Constant node
  ValueIndex<S> loose;    // the value that this one rearranges; itself for a result of a heavy node
  bool constant = false;  // depends on no graph input
};

// An initializer: facts that need no reading of its bytes, and the number if it has one element.
struct StructureTensor {
  int data_type = 0;  // onnx::TensorProto::DataType
  std::vector<std::int64_t> dims;
  std::string_view name;
  std::string_view bytes;  // as in the file; empty if they are in typed fields
  bool single = false;     // one element, `number`
  double number = 0;

  std::int64_t elements() const;
  bool is_vector() const;  // at most one axis longer than 1
  // Returns true if all elements have the same bytes, as in the scales of new norms; false if the bytes are unknown.
  // Reads them.
  bool is_uniform() const;
};

// Returns true if all elements, of `element` bytes each, are the same; false if there are no elements.
bool is_uniform(std::string_view bytes, std::size_t element);

// ONNX Runtime pads channels to complete blocks of 8 or 16 for operators that compute in blocks.
inline bool computes_in_blocks(std::string_view domain) { return domain == "com.microsoft.nchwc"; }
// Returns true if `to` is `dims` with sizes padded to complete blocks.
bool is_filled_up(const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& to);

// Returns the sizes other than 1, ascending: equal for tensors that differ by a transpose or by axes of one element.
std::vector<std::int64_t> sorted_sizes(std::vector<std::int64_t> dims);

template <Side S>
class Classification;

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
  // Classifies nodes and values. Throws Error(corrupt_file) if the graph has a cycle; the error names `file`.
  void finish(const std::string& file);

  // Returns the loose values of a heavy node's inputs, in their order; none for constants.
  std::vector<Value> data_inputs(Node node) const;
  Value loose(Value value) const { return value.exists() ? values[value].loose : Value(); }
  // Returns the tensor from which a constant value is made by casts and transposes; none if it is computed from
  // several.
  Tensor root_tensor(Value value) const;
  // Returns the heavy nodes that compute a loose value: one, except in a reference with several forms.
  const StructureMakers<S>& makers(Value loose) const { return loose.exists() ? makers_[loose] : no_nodes_; }
  // Returns true for a scale or zero point that is found at run time.
  bool is_run_time_scale(Value value) const { return value.exists() && run_time_scale_[value]; }
  // Returns the number of inputs of a heavy node that are not constant.
  std::ptrdiff_t count_data_inputs(Node node) const;
  // Returns true if an operand is constant and has more than one element, or is computed from vectors:
  // weight / sqrt(variance + eps).
  bool reads_weights(Node node) const;
  // Returns true for a product of a value and a weight; false for a product of two values.
  bool is_product_with_weights(Node node) const;
  // Returns true if the node multiplies or divides by one, adds or subtracts zero.
  bool has_no_effect(Node node) const;
  // Returns the position of each node in `order`.
  IndexedVector<Node, std::int32_t> positions() const;
  // Returns the uses of a loose value by heavy nodes, through transparent nodes. `loose` must be its own loose value.
  const StructureUses<S>& heavy_uses(Value loose) const { return heavy_uses_[loose]; }

 private:
  friend class Classification<S>;
  void sort(const std::string& file);

  IndexedVector<Value, StructureUses<S>> heavy_uses_;
  IndexedVector<Value, StructureMakers<S>> makers_;
  StructureMakers<S> no_nodes_;
  IndexedVector<Value, bool> run_time_scale_;
  IndexedVector<Value, bool> per_channel_;  // constants that hold, or are computed from, one number for each channel
};

using ForeignStructure = Structure<Side::foreign>;
using ReferenceStructure = Structure<Side::reference>;

}  // namespace whence::match
