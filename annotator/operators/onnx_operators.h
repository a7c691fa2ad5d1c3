// The facts on the operators of ONNX and of ONNX Runtime (com.microsoft): one row an operator, for matching,
// simplifying, typing and counting. An operator without a row has no facts.
// PyTorch's operators: schema/operator_facts.h.
//
// Rows go by the type alone: a caller that must not take another domain's operator for ONNX's checks the domain.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace whence::operators {

// The rule by which the dtype and sizes of the result follow from the inputs.
enum class ResultType : std::uint8_t {
  own_rule,         // in a way of the operator's own, or not known
  like_first,       // both are those of the first input
  bool_like_first,  // its sizes, in bool
  broadcast,        // the first input's dtype, the sizes of all broadcast
  broadcast_bool,   // those sizes, in bool
  rank_like_first,  // the first input's dtype and rank
  reduced,          // the first input's dtype, without the reduced axes or with 1 for them
  reduced_index,    // int64, sizes as above
};

// The number of floating-point operations that a node takes; view/operation_count.cpp has the formulas.
enum class Flops : std::uint8_t {
  uncounted,
  zero,  // the operator moves, casts or indexes
  per_output,
  per_input,
  softmax,
  normalization,
  batch_normalization,
  matrix_product,
  gemm,
  convolution,
  transposed_convolution,
  pooling,
  einsum,
  attention,
  recurrent,
};

enum Fact : std::uint32_t {
  // Elements that stay.
  transparent = 1 << 0,   // output 0 holds the elements of input 0
  reshapes = 1 << 1,      // all of them in the same order, with axes joined, split, added or dropped
  does_nothing = 1 << 2,  // output 0 is input 0, outside of training
  reorders = 1 << 3,      // to or from ONNX Runtime's blocked layout, which no model has

  // Quantization.
  quantizes = 1 << 4,         // to or from a quantized type, and nothing else
  integer_result = 1 << 5,    // gives sums of integers, which the nodes behind it bring back to their scale
  quantized_result = 1 << 6,  // computes on quantized inputs and gives a quantized result

  // Sizes and indices.
  size_arithmetic = 1 << 7,     // exporters compute sizes and indices with it
  integer_arithmetic = 1 << 8,  // makes sizes of sizes

  // Matching: what tools do with it. An alias has these from its plain operator.
  commutative = 1 << 9,
  without_effect = 1 << 10,  // may be: arithmetic, activations, slicing, which one tool writes and another folds away
  gate = 1 << 11,            // squashes a value that another is multiplied by
  activation = 1 << 12,      // or a normalization with fixed statistics
  folded = 1 << 13,          // may be: into the product before it
  product = 1 << 14,         // a bias may follow

  // Sharing: nodes that compute the same may be one, also across modules.
  helper = 1 << 15,          // rearranges, selects, or prepares sizes and masks, whatever the dtype
  integer_helper = 1 << 16,  // does that for integers and bool only
  random = 1 << 17,          // gives another result each time for equal inputs: never shared
};

struct OnnxOperator {
  std::string_view name;
  std::string_view plain;  // the operator that it is alike in matching: "MatMul" for QGemm; empty: itself
  ResultType result_type = ResultType::own_rule;
  Flops flops = Flops::uncounted;
  std::uint32_t facts = 0;
};

// Returns the row of an operator, "Reshape"; one without facts and name if it has none.
const OnnxOperator& onnx_operator(std::string_view op_type);
std::span<const OnnxOperator> all_onnx_operators();  // by name

inline bool has(const OnnxOperator& row, Fact fact) { return (row.facts & fact) != 0; }
inline bool has(std::string_view op_type, Fact fact) { return has(onnx_operator(op_type), fact); }

}  // namespace whence::operators
