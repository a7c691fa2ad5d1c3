// Facts about the operators of ONNX and of ONNX Runtime (com.microsoft): one row per operator, for matching,
// simplifying, typing and counting. An operator without a row has no facts. PyTorch's operators are in
// schema/operator_facts.h.
//
// The lookup uses only the operator type. A caller that must not confuse operators of different domains checks the
// domain.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace whence::operators {

// How the dtype and sizes of the result follow from the inputs.
enum class ResultType : std::uint8_t {
  own_rule,         // specific to the operator, or unknown
  like_first,       // dtype and sizes of the first input
  bool_like_first,  // bool, with the sizes of the first input
  broadcast,        // dtype of the first input, broadcast sizes of all inputs
  broadcast_bool,   // bool, with broadcast sizes
  rank_like_first,  // dtype and rank of the first input
  reduced,          // dtype of the first input; reduced axes are dropped or 1
  reduced_index,    // int64, with sizes as for `reduced`
};

// How to count the floating-point operations of a node; view/operation_count.cpp has the formulas.
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
  // Operators that keep elements.
  transparent = 1 << 0,   // output 0 has the elements of input 0
  reshapes = 1 << 1,      // keeps all elements in order and joins, splits, adds or drops axes
  does_nothing = 1 << 2,  // output 0 is input 0 outside training
  reorders = 1 << 3,      // converts to or from ONNX Runtime's blocked layout, which no model uses

  // Quantization.
  quantizes = 1 << 4,         // only converts to or from a quantized type
  integer_result = 1 << 5,    // returns integer sums, which the following nodes rescale
  quantized_result = 1 << 6,  // computes on quantized inputs and returns a quantized result

  // Sizes and indices.
  size_arithmetic = 1 << 7,     // exporters compute sizes and indices with it
  integer_arithmetic = 1 << 8,  // computes sizes from sizes

  // Matching: how tools change the operator. An alias uses these facts of its plain operator.
  commutative = 1 << 9,
  without_effect =
      1 << 10,           // may have no effect: arithmetic, activations, slicing that one tool writes and another folds
  gate = 1 << 11,        // bounds a factor that another value is multiplied by
  activation = 1 << 12,  // an activation, or a normalization with fixed statistics
  folded = 1 << 13,      // may be folded into the preceding matrix product
  product = 1 << 14,     // a matrix product or convolution; a bias may follow

  // Sharing: equal nodes may be merged, even across modules.
  helper = 1 << 15,          // rearranges, selects, or prepares sizes and masks, whatever the dtype
  integer_helper = 1 << 16,  // same as `helper`, but only for integers and bool
  random = 1 << 17,          // returns a different result each time for equal inputs: never shared
};

struct OnnxOperator {
  std::string_view name;
  std::string_view plain;  // the operator that it matches like: "MatMul" for QGemm; empty: itself
  ResultType result_type = ResultType::own_rule;
  Flops flops = Flops::uncounted;
  std::uint32_t facts = 0;
};

// Returns the row of an operator, "Reshape"; a row without name and facts if it has none.
const OnnxOperator& onnx_operator(std::string_view op_type);
std::span<const OnnxOperator> all_onnx_operators();  // sorted by name

inline bool has(const OnnxOperator& row, Fact fact) { return (row.facts & fact) != 0; }
inline bool has(std::string_view op_type, Fact fact) { return has(onnx_operator(op_type), fact); }

}  // namespace whence::operators
