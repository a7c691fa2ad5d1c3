#include "annotator/derivation/evaluate_node.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <vector>

#include "annotator/derivation/evaluate.h"
#include "annotator/derivation/pointwise_convolution.h"
#include "schema/element_count.h"

namespace whence::derivation {
namespace {

// Returns the sizes of a node's result; nullopt if they are unknown or dynamic.
std::optional<std::vector<std::int64_t>> sizes_of(const graph::Graph& graph, const graph::GraphNode& node) {
  const auto& dims = graph.values[static_cast<std::size_t>(node.outputs[0])].dims;
  if (!dims) return std::nullopt;
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : *dims) {
    if (!dim.is_static()) return std::nullopt;
    sizes.push_back(dim.size);
  }
  return sizes;
}

bool only_reshapes(const graph::Graph& graph, const graph::GraphNode& node) {
  static const std::set<std::string_view> reshapes = {"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"};
  return node.domain.empty() && reshapes.contains(node.op_type) && sizes_of(graph, node).has_value();
}

bool is_transpose(const graph::GraphNode& node) { return node.domain.empty() && node.op_type == "Transpose"; }

}  // namespace

bool can_evaluate(const graph::Graph& graph, const graph::GraphNode& node) {
  if (node.outputs.size() != 1) return false;
  return simplify::can_evaluate(node) || only_reshapes(graph, node) || is_transpose(node) ||
         is_pointwise_convolution(graph, node);
}

std::optional<TensorData> evaluate(const graph::Graph& graph, const graph::GraphNode& node,
                                   const simplify::Constants& inputs, std::uint64_t most_bytes) {
  if (simplify::can_evaluate(node)) return simplify::evaluate(node, inputs, most_bytes);
  if (is_pointwise_convolution(graph, node)) return pointwise_convolution(inputs, most_bytes);
  const TensorData& data = *inputs[0];
  if (!data.bytes.in_memory() || data.bytes.size() > most_bytes) return std::nullopt;
  if (is_transpose(node)) {
    std::vector<std::int64_t> order(data.shape.size());
    std::iota(order.rbegin(), order.rend(), 0);
    if (const graph::Attribute* const perm = node.find("perm")) {
      const auto* const stated = std::get_if<std::vector<std::int64_t>>(&perm->value);
      if (stated == nullptr || stated->size() != order.size()) return std::nullopt;
      order = *stated;
    }
    return transposed(data, {order});
  }
  const std::vector<std::int64_t> sizes = sizes_of(graph, node).value();
  if (element_count(sizes) != data.element_count()) return std::nullopt;
  return TensorData{data.dtype, sizes, data.bytes};
}

}  // namespace whence::derivation
