// Operator classes: ONNX operators for the same computation share a number, so that MatMul, Gemm and MatMulInteger can
// correspond. operators/onnx_operators.h lists the facts about operators.
#pragma once

#include <cstdint>
#include <string_view>

#include "annotator/operators/onnx_operators.h"

namespace whence::match {

// Returns the number of an operator's class, the same in all threads of one run.
std::uint16_t op_class(std::string_view op_type);

// Returns true if the plain operator of a class has the fact.
bool class_has(std::uint16_t op_class, operators::Fact fact);

inline bool is_commutative(std::uint16_t op_class) { return class_has(op_class, operators::commutative); }
inline bool may_be_without_effect(std::uint16_t op_class) { return class_has(op_class, operators::without_effect); }
inline bool is_gate(std::uint16_t op_class) { return class_has(op_class, operators::gate); }
inline bool is_activation(std::uint16_t op_class) { return class_has(op_class, operators::activation); }
inline bool may_be_folded(std::uint16_t op_class) { return class_has(op_class, operators::folded); }
inline bool is_product(std::uint16_t op_class) { return class_has(op_class, operators::product); }

}  // namespace whence::match
