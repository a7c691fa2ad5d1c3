#include "annotator/derivation/pointwise_convolution.h"

#include <algorithm>
#include <vector>

namespace whence::derivation {
namespace {

using graph::GraphNode;
using Sizes = std::vector<std::int64_t>;

bool states_only(const GraphNode& node, const char* name, std::int64_t number) {
  const graph::Attribute* const stated = node.find(name);
  const auto* const numbers = stated == nullptr ? nullptr : std::get_if<Sizes>(&stated->value);
  if (numbers == nullptr) return stated == nullptr;
  return std::ranges::all_of(*numbers, [&](std::int64_t each) { return each == number; });
}

std::optional<TensorData> of_two(const char* op_type, const TensorData& a, const TensorData& b,
                                 std::uint64_t most_bytes) {
  GraphNode node;
  node.op_type = op_type;
  node.outputs = {0};
  return simplify::evaluate(node, {&a, &b}, most_bytes);
}

}  // namespace

bool is_pointwise_convolution(const graph::Graph& graph, const GraphNode& node) {
  if (!node.domain.empty() || node.op_type != "Conv" || node.inputs.size() < 2) return false;
  const auto& dims = graph.values[static_cast<std::size_t>(node.inputs[1])].dims;
  if (!dims || dims->size() < 2) return false;
  const bool has_one_element =
      std::all_of(dims->begin() + 2, dims->end(), [](const Dim& dim) { return dim.is_static() && dim.size == 1; });
  return has_one_element && node.int_attribute("group", 1) == 1 && node.find("auto_pad") == nullptr &&
         states_only(node, "strides", 1) && states_only(node, "pads", 0);
}

std::optional<TensorData> pointwise_convolution(const simplify::Constants& inputs, std::uint64_t most_bytes) {
  const TensorData &x = *inputs[0], &weight = *inputs[1];
  const std::size_t rank = x.shape.size();
  if (rank < 2 || rank != weight.shape.size() || x.shape[1] != weight.shape[1] || x.element_count() == 0)
    return std::nullopt;
  const std::int64_t places = x.element_count() / (x.shape[0] * x.shape[1]);
  const TensorData channels{x.dtype, {x.shape[0], x.shape[1], places}, x.bytes};
  const TensorData matrix{weight.dtype, {weight.shape[0], weight.shape[1]}, weight.bytes};
  auto result = of_two("MatMul", matrix, channels, most_bytes);
  if (result && inputs.size() > 2 && inputs[2] != nullptr) {
    const TensorData bias{inputs[2]->dtype, {inputs[2]->element_count(), 1}, inputs[2]->bytes};
    result = of_two("Add", *result, bias, most_bytes);
  }
  if (!result) return std::nullopt;
  Sizes sizes = x.shape;
  sizes[1] = weight.shape[0];
  return TensorData{result->dtype, sizes, result->bytes};
}

}  // namespace whence::derivation
