// Graph: an ONNX graph while whence builds it. Converters add to it, simplify/ rewrites it, write/ serialises it.
//
// Guaranteed: every node carries a NodeOrigin; values have one producer; nodes stand in topological order.
// Not thread-safe. No protobuf here: weights stay outside as Bytes until they are written.
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

// The opsets of ONNX's own operators that whence writes.
inline constexpr int oldest_opset = 13, newest_opset = 28, default_opset = 20;

using GraphValueId = std::int32_t;
inline constexpr GraphValueId no_value = -1;  // an optional input that is left out

class Graph;

// An attribute that holds the type of a tensor, its shape left open.
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
  std::string name;  // wanted name; write/ makes it unique. Empty: derived from the producer
  DType dtype = DType::undefined;
  std::optional<std::vector<Dim>> dims;  // absent: rank unknown
  std::int32_t producer = -1;            // node index; -1 for inputs and initializers
  std::int32_t initializer = -1;         // index into initializers
  bool is_input = false;
  bool sequence = false;             // a list of tensors; dtype is that of its elements
  bool optional = false;             // a tensor or nothing
  GraphValueId captured = no_value;  // in a body: the value of the enclosing graph that this stands for
  GraphValueId now = no_value;       // the same value as a rewritten node makes it
};

struct Initializer {
  GraphValueId value = no_value;
  TensorData data;
  origin::NodeOrigin origin;  // operations that use or made it; empty ops for a parameter as the model holds it
  bool parameter = false;     // a parameter or buffer of the model, under its qualified name
  bool rearranged = false;    // the numbers of a parameter in another order or shape
};

// Calls `visit` with each body of If, Loop or Scan that the node holds, in the order of its attributes.
template <class Visit>
void for_each_body(const GraphNode& node, Visit&& visit) {
  for (const Attribute& attribute : node.attributes) {
    if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) visit(**body);
  }
}

class Graph {
 public:
  Graph() = default;
  // Moving keeps the bodies' `outer` right. A plain copy would share bodies, so there is none.
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  // A copy with bodies of its own; the bytes of weights are shared.
  Graph clone() const;

  std::vector<GraphNode> nodes;
  std::vector<GraphValue> values;
  std::vector<Initializer> initializers;
  std::vector<GraphValueId> inputs;
  std::vector<GraphValueId> outputs;
  IndexedVector<SymbolId, Symbol> symbols;
  // Operations of nodes that became constants, bodies included; ascending, distinct.
  std::vector<std::int32_t> folded;
  Graph* outer = nullptr;  // the graph around a branch or loop body: names and values resolve outwards

  GraphValueId add_value(GraphValue value);
  std::int32_t add_node(GraphNode node);  // sets producer of its outputs
  GraphValueId add_initializer(std::string name, TensorData data, origin::NodeOrigin origin, bool parameter);

  // Data of an initializer, also a captured one; nullptr for others, and where its bytes are not in memory.
  const TensorData* constant(GraphValueId value) const;
  // Small integer constants as a vector (int64 or int32 initializers of rank 0 or 1).
  std::optional<std::vector<std::int64_t>> integers(GraphValueId value) const;

  // Consumers of each value: node indices, one entry per use; graph outputs count as use by node -1, and what a body
  // captures as use by the node that holds the body.
  std::vector<std::vector<std::int32_t>> uses() const;
  // Drops removed nodes, nodes whose results are not used, and unused initializers, in bodies too, and brings the
  // nodes back into topological order: a rule may add its nodes at the end. Nodes and initializers are renumbered,
  // values keep their ids. Cost: linear.
  void compact();

 private:
  void adopt_bodies();
  std::vector<bool> live_nodes() const;
  std::vector<std::int32_t> topological_order(const std::vector<bool>& live) const;
  void drop_unused_initializers();
};

// Calls `visit` with each value that the node reads, one call per use: its inputs, then what its bodies capture.
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
