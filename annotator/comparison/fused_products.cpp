#include "annotator/comparison/fused_products.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

#include "annotator/comparison/small_values.h"

namespace whence::comparison {

using graph::GraphNode;

namespace {

std::optional<TensorData> computed(std::string_view op_type, std::vector<graph::Attribute> attributes,
                                   const simplify::Constants& inputs) {
  GraphNode node;
  node.op_type = op_type;
  node.attributes = std::move(attributes);
  node.outputs = {0};
  return evaluate_small(node, inputs);
}

// Returns an operand as MatMul reads it. `turns_batch`: its first axis stands before the last one there; `turns`: its
// last two axes are exchanged after that.
std::optional<TensorData> as_multiplied(const TensorData& operand, bool turns_batch, bool turns) {
  const std::size_t rank = operand.shape.size();
  if (rank < 2 || (!turns_batch && !turns)) return operand;
  std::vector<std::int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (turns_batch) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (turns) std::swap(order[rank - 2], order[rank - 1]);
  return computed("Transpose", {{"perm", std::move(order)}}, {&operand});
}

}  // namespace

std::optional<TensorData> fused_product(const GraphNode& node, const TensorData& left, const TensorData& right) {
  const auto is_set = [&](std::string_view name) { return node.int_attribute(name, 0) != 0; };
  const auto one = as_multiplied(left, is_set("transBatchA"), is_set("transA"));
  const auto other = as_multiplied(right, is_set("transBatchB"), is_set("transB"));
  auto product = one && other ? computed("MatMul", {}, {&*one, &*other}) : std::nullopt;
  const graph::Attribute* const stated = node.find("alpha");
  if (!product || stated == nullptr) return product;
  const float alpha = std::get<float>(stated->value);
  const TensorData factor{product->dtype, {}, Bytes::copy_of(&alpha, sizeof(alpha))};
  return product->dtype == DType::float32 ? computed("Mul", {}, {&*product, &factor}) : std::nullopt;
}

}  // namespace whence::comparison
