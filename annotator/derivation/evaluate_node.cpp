#include "annotator/derivation/evaluate_node.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/derivation/evaluate.h"
#include "annotator/derivation/pointwise_convolution.h"
#include "schema/element_count.h"

namespace whence::derivation {
namespace {

// Returns the sizes of a value; nullopt if they are unknown or dynamic.
std::optional<std::vector<std::int64_t>> sizes_of(const graph::Graph& graph, graph::GraphValueId value) {
  const auto& dims = graph.values[static_cast<std::size_t>(value)].dims;
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
  return node.domain.empty() && reshapes.contains(node.op_type) && sizes_of(graph, node.outputs[0]).has_value();
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
  const std::vector<std::int64_t> sizes = sizes_of(graph, node.outputs[0]).value();
  if (element_count(sizes) != data.element_count()) return std::nullopt;
  return TensorData{data.dtype, sizes, data.bytes};
}

std::vector<TensorData> parts_of_split(const graph::Graph& graph, const graph::GraphNode& node,
                                       const TensorData& data) {
  const auto rank = static_cast<std::int64_t>(data.shape.size());
  const std::int64_t stated = node.int_attribute("axis", 0), axis = stated < 0 ? stated + rank : stated;
  if (node.op_type != "Split" || !node.domain.empty() || axis < 0 || axis >= rank || !data.bytes.in_memory()) return {};
  const std::vector<std::int64_t> after(data.shape.begin() + axis + 1, data.shape.end());
  const std::size_t place = static_cast<std::size_t>(element_count(after)) * size_of(data.dtype);
  const std::size_t row = place * static_cast<std::size_t>(data.shape[static_cast<std::size_t>(axis)]);
  const auto* const bytes = reinterpret_cast<const char*>(data.bytes.in_memory()->data());
  std::vector<TensorData> parts;
  std::size_t first = 0;
  for (const graph::GraphValueId output : node.outputs) {
    const auto sizes = output == graph::no_value ? std::nullopt : sizes_of(graph, output);
    if (!sizes || sizes->size() != data.shape.size()) return {};
    const std::size_t size = place * static_cast<std::size_t>((*sizes)[static_cast<std::size_t>(axis)]);
    if (size > row - first) return {};
    std::string part;
    for (std::size_t at = 0; at < data.bytes.size(); at += row) part.append(bytes + at + first, size);
    parts.push_back({data.dtype, *sizes, Bytes::owned(std::move(part))});
    first += size;
  }
  return parts;
}

}  // namespace whence::derivation
