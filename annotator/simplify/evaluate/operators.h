// The evaluation functions of this folder; evaluate.cpp lists them by operator.
#pragma once

#include "annotator/simplify/evaluate/evaluate.h"
#include "annotator/simplify/evaluate/numbers.h"

namespace whence::simplify {

struct Evaluation {
  const graph::GraphNode& node;
  const Constants& inputs;  // at least as many as the operator needs
  std::uint64_t most_bytes;

  const TensorData& input(std::size_t at) const { return *inputs[at]; }
  bool has(std::size_t at) const { return at < inputs.size() && inputs[at] != nullptr; }
  // Returns true if a result of this shape is within `most_bytes`.
  bool fits(DType dtype, const Sizes& shape) const;
  // Returns an int64 or int32 input as a list; nullopt for other dtypes.
  std::optional<Sizes> integers(std::size_t at) const;
};

using Evaluate = std::optional<TensorData> (*)(const Evaluation&);

// elementwise.cpp
std::optional<TensorData> evaluate_unary(const Evaluation&);
std::optional<TensorData> evaluate_binary(const Evaluation&);
std::optional<TensorData> evaluate_clip(const Evaluation&);
std::optional<TensorData> evaluate_cast(const Evaluation&);
bool is_unary(std::string_view op_type);
bool is_binary(std::string_view op_type);

// reduce.cpp
std::optional<TensorData> evaluate_reduction(const Evaluation&);
std::optional<TensorData> evaluate_cumulative_sum(const Evaluation&);
std::optional<TensorData> evaluate_softmax(const Evaluation&);  // and LogSoftmax
std::optional<TensorData> evaluate_matrix_product(const Evaluation&);
std::optional<TensorData> evaluate_gemm(const Evaluation&);
bool is_reduction(std::string_view op_type);

// rearrange.cpp: moves bytes without interpreting them, so it supports every dtype of whole bytes
std::optional<TensorData> evaluate_concat(const Evaluation&);
std::optional<TensorData> evaluate_constant_of_shape(const Evaluation&);
std::optional<TensorData> evaluate_expand(const Evaluation&);
std::optional<TensorData> evaluate_gather(const Evaluation&);
std::optional<TensorData> evaluate_gather_elements(const Evaluation&);
std::optional<TensorData> evaluate_gather_nd(const Evaluation&);
std::optional<TensorData> evaluate_pad(const Evaluation&);
std::optional<TensorData> evaluate_range(const Evaluation&);
std::optional<TensorData> evaluate_resize(const Evaluation&);  // mode nearest only
std::optional<TensorData> evaluate_scatter_nd(const Evaluation&);
std::optional<TensorData> evaluate_slice(const Evaluation&);
std::optional<TensorData> evaluate_tile(const Evaluation&);
std::optional<TensorData> evaluate_trilu(const Evaluation&);
std::optional<TensorData> evaluate_where(const Evaluation&);

}  // namespace whence::simplify
