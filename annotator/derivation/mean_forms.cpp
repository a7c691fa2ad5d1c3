#include "annotator/derivation/mean_forms.h"

#include <string>
#include <utility>

#include "annotator/program/tensor_values.h"

namespace whence::derivation {
namespace {

using graph::Graph;
using graph::GraphNode;
using graph::GraphValueId;

// Returns the number of elements that a reduction joins to one; nullopt if it is dynamic or unknown.
std::optional<double> joined_elements(const Graph& graph, const GraphNode& reduction) {
  const auto axes = reduction.inputs.size() == 2 ? graph.integers(reduction.inputs[1]) : std::nullopt;
  const auto& dims = graph.values[static_cast<std::size_t>(reduction.inputs[0])].dims;
  if (!axes || axes->empty() || !dims) return std::nullopt;
  double number = 1;
  for (std::int64_t axis : *axes) {
    if (axis < 0) axis += static_cast<std::int64_t>(dims->size());
    if (axis < 0 || axis >= static_cast<std::int64_t>(dims->size())) return std::nullopt;
    const Dim& dim = (*dims)[static_cast<std::size_t>(axis)];
    if (!dim.is_static()) return std::nullopt;
    number *= static_cast<double>(dim.size);
  }
  return number;
}

void write_as_mean(Graph& graph, std::size_t at, double number) {
  const GraphNode sum = graph.nodes[at];
  const auto like = [&](GraphValueId value) {
    const graph::GraphValue& known = graph.values[static_cast<std::size_t>(value)];
    return graph.add_value({.dtype = known.dtype, .dims = known.dims});
  };
  const GraphValueId operand = sum.inputs[0];
  const DType dtype = graph.values[static_cast<std::size_t>(operand)].dtype;
  const GraphValueId squares = like(operand), mean = like(sum.outputs[0]);
  const GraphValueId factor = graph.add_initializer("", program::number_scalar(number, dtype), sum.origin, false);
  graph.nodes[at].removed = true;
  graph.add_node({.op_type = "Mul", .inputs = {operand, operand}, .outputs = {squares}, .origin = sum.origin});
  graph.add_node({.op_type = "ReduceMean",
                  .inputs = {squares, sum.inputs[1]},
                  .outputs = {mean},
                  .attributes = sum.attributes,
                  .origin = sum.origin});
  graph.add_node({.op_type = "Mul", .inputs = {mean, factor}, .outputs = sum.outputs, .origin = sum.origin});
}

}  // namespace

std::optional<Graph> with_means(const Graph& graph) {
  std::optional<Graph> changed;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (node.removed || node.op_type != "ReduceSumSquare") continue;
    const auto number = joined_elements(graph, node);
    if (!number) continue;
    if (!changed) changed = graph.clone();
    write_as_mean(*changed, i, *number);
  }
  if (changed) changed->compact();
  return changed;
}

}  // namespace whence::derivation
