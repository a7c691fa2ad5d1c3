#include "annotator/match/quantized_operands.h"

#include <algorithm>
#include <array>

namespace whence::match {
namespace {

constexpr std::size_t inputs_of_operand = 3;  // the value, its scale, its zero point

std::vector<QuantizedOperand> operands_from(std::size_t first, std::size_t end) {
  std::vector<QuantizedOperand> operands;
  for (std::size_t at = first; at < end; at += inputs_of_operand) operands.push_back({at, at + 1, at + 2});
  return operands;
}

}  // namespace

std::vector<QuantizedOperand> quantized_operands(std::string_view op_type, std::size_t inputs) {
  static constexpr std::array<std::string_view, 6> with_one = {"QLinearAveragePool", "QLinearGlobalAveragePool",
                                                               "QLinearLeakyRelu",   "QLinearReduceMean",
                                                               "QLinearSigmoid",     "QLinearSoftmax"};
  // The last two inputs are the scale and the zero point of the result.
  if ((op_type == "QLinearAdd" || op_type == "QLinearMul") && inputs >= 7) return operands_from(0, 6);
  if (std::ranges::find(with_one, op_type) != with_one.end() && inputs >= 3) return operands_from(0, 3);
  if (op_type == "QLinearConcat" && inputs >= 5) return operands_from(2, inputs - (inputs - 2) % inputs_of_operand);
  if (op_type != "QLinearWhere" || inputs < 8) return {};
  std::vector<QuantizedOperand> operands = operands_from(1, 7);
  operands.insert(operands.begin(), QuantizedOperand{0});
  return operands;
}

}  // namespace whence::match
