// The table of operators that can be evaluated.
#include "annotator/simplify/evaluate/evaluate.h"

#include <algorithm>
#include <string_view>

#include "annotator/simplify/evaluate/operators.h"

namespace whence::simplify {

using graph::GraphNode;

namespace {

struct Entry {
  std::string_view op_type;
  std::size_t needs;  // number of required inputs
  Evaluate evaluate;
};

constexpr Entry table[] = {
    {"Cast", 1, evaluate_cast},
    {"Clip", 1, evaluate_clip},
    {"Concat", 1, evaluate_concat},
    {"ConstantOfShape", 1, evaluate_constant_of_shape},
    {"CumSum", 2, evaluate_cumulative_sum},
    {"Expand", 2, evaluate_expand},
    {"Gather", 2, evaluate_gather},
    {"GatherElements", 2, evaluate_gather_elements},
    {"GatherND", 2, evaluate_gather_nd},
    {"Gemm", 2, evaluate_gemm},
    {"LogSoftmax", 1, evaluate_softmax},
    {"MatMul", 2, evaluate_matrix_product},
    {"Pad", 2, evaluate_pad},
    {"Range", 3, evaluate_range},
    {"Resize", 1, evaluate_resize},
    {"ScatterND", 3, evaluate_scatter_nd},
    {"Slice", 3, evaluate_slice},
    {"Softmax", 1, evaluate_softmax},
    {"Tile", 2, evaluate_tile},
    {"Trilu", 1, evaluate_trilu},
    {"Where", 3, evaluate_where},
};

// The unary, binary and reduction families have their own tables.
Entry entry_of(const GraphNode& node) {
  if (!node.domain.empty()) return {};
  if (is_unary(node.op_type)) return {node.op_type, 1, evaluate_unary};
  if (is_binary(node.op_type)) return {node.op_type, 2, evaluate_binary};
  if (is_reduction(node.op_type)) return {node.op_type, 1, evaluate_reduction};
  const auto* found = std::ranges::find(table, node.op_type, &Entry::op_type);
  return found == std::end(table) ? Entry{} : *found;
}

// Returns true if the number of bytes matches shape and dtype: sub-byte dtypes and damaged constants are left to the
// runtime.
bool has_all_bytes(const TensorData& data) {
  const std::size_t width = size_of(data.dtype);
  return width != 0 && data.bytes.in_memory() &&
         data.bytes.size() == width * static_cast<std::size_t>(data.element_count());
}

}  // namespace

bool Evaluation::fits(DType dtype, const Sizes& shape) const {
  std::uint64_t size = size_of(dtype);
  for (const std::int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(size, static_cast<std::uint64_t>(dim), &size)) return false;
  }
  return size <= most_bytes;
}

std::optional<Sizes> Evaluation::integers(std::size_t at) const {
  const TensorData& data = input(at);
  if (data.dtype != DType::int64 && data.dtype != DType::int32) return std::nullopt;
  return numbers_of<std::int64_t>(data);
}

bool can_evaluate(const GraphNode& node) { return node.outputs.size() == 1 && entry_of(node).evaluate != nullptr; }

std::optional<TensorData> evaluate(const GraphNode& node, const Constants& inputs, std::uint64_t most_bytes) {
  const Entry entry = entry_of(node);
  if (inputs.size() < entry.needs) return std::nullopt;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr ? i < entry.needs : !has_all_bytes(*inputs[i]) && inputs[i]->element_count() != 0) {
      return std::nullopt;
    }
  }
  return entry.evaluate({node, inputs, most_bytes});
}

}  // namespace whence::simplify
