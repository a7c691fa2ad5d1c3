#include "annotator/comparison/fused_products.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

#include "annotator/comparison/small_values.h"
#include "schema/element_count.h"

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

using Sizes64 = std::vector<std::int64_t>;

// Returns for each matrix of the product the number of the operand's matrix. `shape`: of the operand.
std::optional<Sizes64> matrices_of(const Sizes64& batch, const Sizes64& shape) {
  const std::size_t own = shape.size() - 2;
  Sizes64 numbers(static_cast<std::size_t>(element_count(batch)));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t number = 0, step = 1;
    for (std::size_t axis = 0; axis < batch.size(); ++axis) {
      const std::int64_t place = rest % batch[batch.size() - 1 - axis];
      rest /= batch[batch.size() - 1 - axis];
      if (axis >= own) continue;
      const std::int64_t size = shape[own - 1 - axis];
      if (size != 1 && size != batch[batch.size() - 1 - axis]) return std::nullopt;
      number += size == 1 ? 0 : place * step;
      step *= size;
    }
    numbers[i] = number;
  }
  return numbers;
}

const float* floats(const TensorData& data) { return reinterpret_cast<const float*>(data.bytes.in_memory()->data()); }

}  // namespace

std::optional<TensorData> matrix_product(const TensorData& left, const TensorData& right) {
  constexpr std::int64_t most = std::int64_t{1} << 28;  // multiplications
  const std::size_t rank = std::max(left.shape.size(), right.shape.size());
  if (left.dtype != DType::float32 || right.dtype != DType::float32) return std::nullopt;
  if (std::min(left.shape.size(), right.shape.size()) < 2) return std::nullopt;
  const std::int64_t m = left.shape.end()[-2], k = left.shape.back(), n = right.shape.back();
  if (right.shape.end()[-2] != k) return std::nullopt;
  Sizes64 batch(rank - 2, 1);
  for (const TensorData* operand : {&left, &right}) {
    const std::size_t own = operand->shape.size() - 2;
    for (std::size_t i = 0; i < own; ++i) {
      std::int64_t& size = batch[batch.size() - own + i];
      size = size == 1 ? operand->shape[i] : size;
    }
  }
  const auto lefts = matrices_of(batch, left.shape), rights = matrices_of(batch, right.shape);
  if (!lefts || !rights || k == 0 || element_count(batch) > most / std::max<std::int64_t>(m * n * k, 1))
    return std::nullopt;
  std::vector<float> sums(lefts->size() * static_cast<std::size_t>(m * n), 0);
  for (std::size_t i = 0; i < lefts->size(); ++i) {
    const float* const a = floats(left) + (*lefts)[i] * m * k;
    const float* const b = floats(right) + (*rights)[i] * k * n;
    float* const c = sums.data() + static_cast<std::int64_t>(i) * m * n;
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t between = 0; between < k; ++between) {
        const float factor = a[row * k + between];
        for (std::int64_t column = 0; column < n; ++column) c[row * n + column] += factor * b[between * n + column];
      }
    }
  }
  Sizes64 shape = batch;
  shape.insert(shape.end(), {m, n});
  return TensorData{DType::float32, shape, Bytes::copy_of(sums.data(), sums.size() * sizeof(float))};
}

std::optional<TensorData> fused_product(const GraphNode& node, const TensorData& left, const TensorData& right) {
  const auto is_set = [&](std::string_view name) { return node.int_attribute(name, 0) != 0; };
  const auto one = as_multiplied(left, is_set("transBatchA"), is_set("transA"));
  const auto other = as_multiplied(right, is_set("transBatchB"), is_set("transB"));
  auto product = one && other ? matrix_product(*one, *other) : std::nullopt;
  const graph::Attribute* const stated = node.find("alpha");
  if (!product || stated == nullptr) return product;
  const float alpha = std::get<float>(stated->value);
  const TensorData factor{product->dtype, {}, Bytes::copy_of(&alpha, sizeof(alpha))};
  return product->dtype == DType::float32 ? computed("Mul", {}, {&*product, &factor}) : std::nullopt;
}

}  // namespace whence::comparison
