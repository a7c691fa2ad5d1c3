// Which inputs of an operator on quantised values are operands, and which are the scale and the zero point of one.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace whence::match {

struct QuantizedOperand {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  std::size_t value, scale = none, zero = none;  // numbers of inputs; none for an operand that is not quantised
};

// Returns the operands of QLinearAdd and the other operators of ONNX Runtime that compute element by element, of
// QLinearConcat and QLinearWhere, in the order of the plain operator's inputs. Empty for all other operators.
std::vector<QuantizedOperand> quantized_operands(std::string_view op_type, std::size_t inputs);

}  // namespace whence::match
