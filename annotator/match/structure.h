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

namespace whence::match {

enum class NodeKind : std::uint8_t {
  heavy,        // computes: what correspondences are found between
  transparent,  // the same elements in another layout or precision; also the bias of the product before it
  constant,     // depends on no graph input
};

struct StructureUse {
  std::int32_t node = -1;  // -1: a graph output
  std::int32_t slot = 0;
};

struct StructureNode {
  std::string_view op_type, domain, name;
  std::int32_t source = -1;  // index among the file's nodes; several nodes share it when a function is called often
  std::uint16_t op_class = 0;
  bool commutative = false;
  NodeKind kind = NodeKind::heavy;
  bool holds_bodies = false;
  bool computes_sizes = false;                // arithmetic on sizes of tensors alone
  std::uint64_t attributes = 0;               // digest of all but graphs
  std::uint64_t padding = 0;                  // digest of `pads` alone; 0 when nothing is padded
  std::vector<std::int32_t> inputs, outputs;  // values; -1 where an optional one is left out
};

struct StructureValue {
  std::string_view name;
  std::vector<std::int32_t> producers;  // one, but for references made of several forms of one program
  std::vector<StructureUse> uses;
  std::int32_t tensor = -1;  // index into tensors: an initializer, or a Constant node's value
  std::int32_t input = -1;   // position among graph inputs
  std::int32_t loose = -1;   // the value that this one is a rearrangement of; itself for results of heavy nodes
  bool output = false;       // of the graph
  bool constant = false;     // depends on no graph input
};

// An initializer: what can be said of it without looking at its bytes, and a number when it is one.
struct StructureTensor {
  std::int32_t value = -1;
  int data_type = 0;  // onnx::TensorProto::DataType
  std::vector<std::int64_t> dims;
  std::string_view name;
  std::string_view bytes;  // as the file has them, empty when they lie in typed fields
  bool single = false;     // one element, `number`
  double number = 0;

  std::int64_t elements() const;
  bool is_vector() const;  // at most one axis longer than 1
};

class Structure {
 public:
  std::vector<StructureNode> nodes;
  std::vector<StructureValue> values;
  std::vector<StructureTensor> tensors;
  std::vector<std::int32_t> inputs, outputs;
  std::vector<std::int32_t> order;  // nodes, every producer before its consumers

  std::int32_t add_value(std::string_view name);
  std::int32_t add_node(StructureNode node);  // registers it with its inputs and outputs
  // Classifies nodes and values. Throws Error(corrupt_file) when the graph has a cycle; `file` is named in it.
  void finish(const std::string& file);

  // The values that a heavy node computes from: loose, constants as -1, in the order of its inputs.
  std::vector<std::int32_t> data_inputs(const StructureNode& node) const;
  std::int32_t loose(std::int32_t value) const { return value < 0 ? -1 : values[value].loose; }
  // The tensor that a constant value comes from, through casts and transposes; -1 when it is computed from several.
  std::int32_t root_tensor(std::int32_t value) const;
  // The heavy nodes that compute a loose value: one, but for references made of several forms.
  const std::vector<std::int32_t>& makers(std::int32_t loose) const { return makers_[loose]; }
  // A scale or zero point that is found at run time.
  bool is_run_time_scale(std::int32_t value) const { return value >= 0 && side_[value]; }
  // A constant operand of more than one element, or what is computed from vectors: weight / sqrt(variance + eps).
  bool reads_weights(const StructureNode& node) const;
  // Multiplies or divides by one, adds or subtracts zero.
  bool has_no_effect(const StructureNode& node) const;
  // Uses of a loose value by heavy nodes, through everything transparent. `loose` must be its own loose value.
  const std::vector<StructureUse>& heavy_uses(std::int32_t loose) const { return heavy_uses_[loose]; }

 private:
  void sort(const std::string& file);
  void classify();
  bool adds_bias(const StructureNode& node);
  bool cuts_nothing(const StructureNode& node) const;
  bool gates_itself(const StructureNode& node);
  bool scales_integer_product(const StructureNode& node);
  bool computes_sizes(const StructureNode& node) const;
  bool computes_per_channel(const StructureNode& node) const;

  void same_but_layout(std::int32_t a, std::int32_t b);
  std::int32_t find_loose(std::int32_t value);

  std::vector<std::vector<StructureUse>> heavy_uses_;
  std::vector<std::vector<std::int32_t>> makers_;
  std::vector<bool> side_;         // values that are scales and zero points found at run time
  std::vector<bool> per_channel_;  // constants that hold, or are computed from, one number for each channel
};

}  // namespace whence::match
