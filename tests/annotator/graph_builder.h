// Builds small graphs for tests, one line per node:
//   GraphBuilder g;
//   auto x = g.input("x", DType::float32, {2, 3});
//   g.output(g.node("Relu", {x}));
#pragma once

#include <string>
#include <vector>

#include "annotator/graph/graph.h"

namespace whence {

inline constexpr DType float32 = DType::float32, int64 = DType::int64;

inline std::vector<std::string> op_types(const graph::Graph& graph) {
  std::vector<std::string> types;
  for (const graph::GraphNode& node : graph.nodes) types.push_back(node.op_type);
  return types;
}

// A size of -1 is a dynamic axis with the name "d0", "d1", ... by position.
class GraphBuilder {
 public:
  graph::Graph graph;

  graph::GraphValueId input(const std::string& name, DType dtype, const std::vector<std::int64_t>& sizes) {
    graph::GraphValue value;
    value.name = name;
    value.is_input = true;
    const graph::GraphValueId id = typed(std::move(value), dtype, sizes);
    graph.inputs.push_back(id);
    return id;
  }

  // Each node is a new operation, numbered from 0, unless `op` is specified.
  graph::GraphValueId node(const std::string& op_type, const std::vector<graph::GraphValueId>& inputs,
                           std::vector<graph::Attribute> attributes = {}, DType dtype = DType::float32,
                           const std::vector<std::int64_t>& sizes = {}, std::int32_t op = -1) {
    graph::GraphNode new_node;
    new_node.op_type = op_type;
    new_node.inputs = inputs;
    new_node.attributes = std::move(attributes);
    new_node.origin = {origin::OriginKind::own, {op < 0 ? next_op_++ : op}};
    const graph::GraphValueId result = typed({}, dtype, sizes);
    new_node.outputs = {result};
    graph.add_node(std::move(new_node));
    return result;
  }

  template <class T>
  graph::GraphValueId constant(DType dtype, const std::vector<std::int64_t>& shape, const std::vector<T>& elements,
                               const std::string& parameter = "") {
    TensorData data{dtype, shape, Bytes::copy_of(elements.data(), elements.size() * sizeof(T))};
    return graph.add_initializer(parameter, std::move(data), {origin::OriginKind::shared, {0}}, !parameter.empty());
  }
  graph::GraphValueId integers(const std::vector<std::int64_t>& elements) {
    return constant(DType::int64, {static_cast<std::int64_t>(elements.size())}, elements);
  }
  graph::GraphValueId number(float element) { return constant<float>(DType::float32, {}, {element}); }
  graph::GraphValueId parameter(const std::string& name, const std::vector<std::int64_t>& shape,
                                const std::vector<float>& elements) {
    return constant(DType::float32, shape, elements, name);
  }

  void output(graph::GraphValueId value, const std::string& name = "y") {
    graph.values[value].name = name;
    graph.outputs.push_back(value);
  }

  // Returns the operators in order, like "Transpose Relu".
  std::string operators() const {
    std::string text;
    for (const graph::GraphNode& node : graph.nodes) text += (text.empty() ? "" : " ") + node.op_type;
    return text;
  }

 private:
  graph::GraphValueId typed(graph::GraphValue value, DType dtype, const std::vector<std::int64_t>& sizes) {
    value.dtype = dtype;
    value.dims.emplace();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      value.dims->push_back(sizes[i] < 0 ? Dim{7, true, symbol("d" + std::to_string(i))}
                                         : Dim{sizes[i], false, none_id});
    }
    return graph.add_value(std::move(value));
  }

  SymbolId symbol(const std::string& name) {
    for (const SymbolId id : graph.symbols.keys()) {
      if (graph.symbols[id].name == name) return id;
    }
    return graph.symbols.add({name, 7, {}, {}});
  }

  std::int32_t next_op_ = 0;
};

}  // namespace whence
