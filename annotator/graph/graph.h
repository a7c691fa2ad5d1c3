// Graph: an ONNX graph while whence builds it. Converters add to it, simplify/ rewrites it, write/ serialises it.
//
// Guaranteed: every node has a NodeOrigin; values have one producer; nodes are in topological order. Not thread-safe.
// No protobuf here: weights stay outside as Bytes until they are written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "annotator/origin/node_origin.h"
#include "schema/program.h"
#include "schema/tensor_data.h"

namespace whence::graph {

// The opsets of ONNX's standard operators that whence writes.
inline constexpr int oldest_opset = 13, newest_opset = 28, default_opset = 20;

using GraphValueId = std::int32_t;
inline constexpr GraphValueId no_value = -1;  // an absent optional input

class Graph;

// An attribute value with the type of a tensor, without its shape.
struct TensorType {
  DType dtype = DType::undefined;
};

struct Attribute {
  std::string name;
  std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>,
               std::vector<std::string>, TensorData, std::shared_ptr<Graph>, TensorType>
      value;
};

struct GraphNode {
  std::string op_type;
  std::string domain;  // "" is ai.onnx
  std::vector<GraphValueId> inputs;
  std::vector<GraphValueId> outputs;
  std::vector<Attribute> attributes;
  origin::NodeOrigin origin;
  std::string name;      // set by name_nodes() at the end
  bool removed = false;  // erased; swept by Graph::compact()

  const Attribute* find(std::string_view attribute) const;
  std::int64_t int_attribute(std::string_view attribute, std::int64_t otherwise) const;
};

struct GraphValue {
  std::string name;  // preferred name; write/ makes it unique. Empty: derived from the producer
  DType dtype = DType::undefined;
  std::optional<std::vector<Dim>> dims;  // absent: rank unknown
  std::int32_t producer = -1;            // node index; -1 for inputs and initializers
  std::int32_t initializer = -1;         // index into initializers
  bool is_input = false;
  bool sequence = false;                 // a list of tensors; dtype is the dtype of its elements
  bool optional = false;                 // a tensor or None
  GraphValueId captured = no_value;      // in a body: the value of the enclosing graph that this refers to
  GraphValueId rewritten_as = no_value;  // the same value, computed by a rewritten node
};

struct Initializer {
  GraphValueId value = no_value;
  TensorData data;
  origin::NodeOrigin origin;  // operations that use or computed it; no operations for an unchanged parameter
  bool parameter = false;     // a parameter or buffer of the model, under its qualified name
  bool rearranged = false;    // the elements of a parameter in another order or shape
};

// Calls `visit` with each body of an If, Loop or Scan node, in the order of its attributes.
template <class Visit>
void for_each_body(const GraphNode& node, Visit&& visit) {
  for (const Attribute& attribute : node.attributes) {
    if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) visit(**body);
  }
}

class Graph {
 public:
  Graph() = default;
  // Moving updates `outer` of the bodies. A plain copy would share bodies, so it is not available.
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  // Returns a copy with its own bodies; the bytes of weights are shared.
  Graph clone() const;

  std::vector<GraphNode> nodes;
  std::vector<GraphValue> values;
  std::vector<Initializer> initializers;
  std::vector<GraphValueId> inputs;
  std::vector<GraphValueId> outputs;
  IndexedVector<SymbolId, Symbol> symbols;
  // Operations whose nodes became constants, bodies included; ascending, distinct.
  std::vector<std::int32_t> folded;
  Graph* outer = nullptr;  // the graph that contains this body: names and values resolve outwards

  GraphValueId add_value(GraphValue value);
  std::int32_t add_node(GraphNode node);  // sets `producer` of its outputs
  GraphValueId add_initializer(std::string name, TensorData data, origin::NodeOrigin origin, bool parameter);

  // Returns the node of this graph that computes a value; nullptr for inputs, initializers, captures and no_value.
  const GraphNode* producer(GraphValueId value) const;
  // Returns the initializer of this graph that a value is; nullptr for other values and no_value.
  const Initializer* initializer(GraphValueId value) const;
  // Returns the data of an initializer, own or captured; nullptr for other values and for bytes that are not in memory.
  const TensorData* constant(GraphValueId value) const;
  // Returns an integer constant as a vector (int64 or int32 initializers of rank 0 or 1).
  std::optional<std::vector<std::int64_t>> integers(GraphValueId value) const;

  // Returns the consumers of each value: node indices, one per use. A graph output counts as a use by node -1, a
  // capture as a use by the node that has the body.
  std::vector<std::vector<std::int32_t>> uses() const;
  // Drops removed nodes, nodes with unused results, and unused initializers, in bodies too, and restores the
  // topological order, because rules add nodes at the end. Renumbers nodes and initializers; values keep their ids.
  // Cost: linear.
  void compact();

 private:
  void adopt_bodies();
  std::vector<bool> live_nodes() const;
  std::vector<std::int32_t> topological_order(const std::vector<bool>& live) const;
  void drop_unused_initializers();
};

// Calls `visit` with each value that the node reads, once per use: its inputs, then the captures of its bodies.
template <class Visit>
void for_each_read(const GraphNode& node, Visit&& visit) {
  for (const GraphValueId input : node.inputs) {
    if (input != no_value) visit(input);
  }
  for_each_body(node, [&](const Graph& body) {
    for (const GraphValue& value : body.values) {
      if (value.captured != no_value) visit(value.captured);
    }
  });
}

}  // namespace whence::graph
