#include "annotator/write/value_names.h"

namespace whence::write {

using graph::Graph;
using graph::GraphNode;
using graph::GraphValueId;
using graph::no_value;

ValueNames::ValueNames(const Graph& graph) { name_graph(graph, nullptr); }

const std::string& ValueNames::of(const Graph& graph, GraphValueId value) const {
  static const std::string absent;
  return value == no_value ? absent : names_.at(&graph)[value];
}

void ValueNames::claim(std::vector<std::string>& names, const Graph& graph, GraphValueId value,
                       const std::string& otherwise) {
  if (!names[value].empty()) return;
  const std::string& preferred = graph.values[value].name;
  names[value] = unique_.claim(preferred.empty() ? otherwise : preferred);
}

void ValueNames::name_graph(const Graph& graph, const Graph* outer) {
  std::vector<std::string> names(graph.values.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const GraphValueId captured = graph.values[i].captured;
    if (outer != nullptr && captured != no_value) names[i] = of(*outer, captured);
  }
  for (const GraphValueId value : graph.inputs) claim(names, graph, value, "input");
  for (const GraphValueId value : graph.outputs) claim(names, graph, value, "output");
  for (const graph::Initializer& initializer : graph.initializers) {
    if (initializer.parameter) claim(names, graph, initializer.value, "parameter");
  }
  for (const graph::Initializer& initializer : graph.initializers) claim(names, graph, initializer.value, "constant");
  for (const GraphNode& node : graph.nodes) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == no_value) continue;
      const std::string& base = node.name.empty() ? node.op_type : node.name;
      claim(names, graph, node.outputs[i], base + "_output_" + std::to_string(i));
    }
  }
  names_.emplace(&graph, std::move(names));
  for (const GraphNode& node : graph.nodes) {
    for_each_body(node, [&](const Graph& body) { name_graph(body, &graph); });
  }
}

}  // namespace whence::write
