// Operator classes: ONNX operators for the same computation share a number, whichever tool wrote them, so that MatMul,
// Gemm and MatMulInteger can correspond.
#pragma once

#include <cstdint>
#include <string_view>

namespace whence::match {

// Equal names have equal numbers, the same in all threads of one run.
std::uint16_t op_class(std::string_view domain, std::string_view op_type);

bool is_transparent(std::string_view op_type);         // output 0 holds the elements of input 0
bool is_size_arithmetic(std::string_view op_type);     // operators with which exporters compute sizes and indices
bool is_integer_arithmetic(std::string_view op_type);  // makes sizes of sizes
bool is_commutative(std::uint16_t op_class);
// True for arithmetic, activations, padding, slicing: operators that one tool writes out and another folds away.
bool may_be_without_effect(std::uint16_t op_class);
bool is_gate(std::uint16_t op_class);        // squashes a value that another is multiplied by
bool is_activation(std::uint16_t op_class);  // or a normalization with fixed statistics
bool may_be_folded(std::uint16_t op_class);  // into the product before it
bool is_product(std::uint16_t op_class);     // MatMul and Conv: a bias may follow

}  // namespace whence::match
