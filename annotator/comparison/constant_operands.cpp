#include "annotator/comparison/constant_operands.h"

#include "annotator/match/quantized_operands.h"
#include "annotator/program/tensor_values.h"

namespace whence::comparison {

using derivation::Contents;
using derivation::FileTensors;
using derivation::no_tensor;
using derivation::TensorNumber;

namespace {

using match::QuantizedOperand;
using onnx_file::OnnxNode;

TensorNumber tensor_at(const OnnxNode& node, std::size_t slot, const FileTensors& tensors) {
  return slot < node.inputs.size() ? tensors.find(node.inputs[slot]) : no_tensor;
}

ConstantOperand operand_at(std::size_t slot, const OnnxNode& node, const QuantizedOperand& inputs,
                           const FileTensors& tensors) {
  return {slot, tensor_at(node, inputs.value, tensors), tensor_at(node, inputs.scale, tensors),
          tensor_at(node, inputs.zero, tensors)};
}

}  // namespace

std::vector<ConstantOperand> constant_operands(const OnnxNode& node, const FileTensors& tensors) {
  const std::vector<QuantizedOperand> quantised = match::quantized_operands(node.op_type, node.inputs.size());
  std::vector<ConstantOperand> operands;
  const auto add = [&](const ConstantOperand& operand) {
    if (operand.tensor != no_tensor) operands.push_back(operand);
  };
  for (std::size_t slot = 0; slot < quantised.size(); ++slot) add(operand_at(slot, node, quantised[slot], tensors));
  if (!quantised.empty()) return operands;
  for (std::size_t slot = 0; slot < node.inputs.size(); ++slot) {
    const OnnxNode* const maker = tensors.producer(node.inputs[slot]);
    const bool is_quantised = maker != nullptr && maker->op_type == "DequantizeLinear";
    add(is_quantised ? operand_at(slot, *maker, {0, 1, 2}, tensors)
                     : ConstantOperand{.slot = slot, .tensor = tensor_at(node, slot, tensors)});
  }
  return operands;
}

std::optional<double> uniform_number(const TensorData& data) {
  constexpr std::size_t most = 4096;  // elements
  const auto elements = program::Elements::of(data);
  if (!elements || elements->size() == 0 || elements->size() > most) return std::nullopt;
  for (std::size_t i = 1; i < elements->size(); ++i) {
    if (elements->number(i) != elements->number(0)) return std::nullopt;
  }
  return elements->number(0);
}

std::optional<double> uniform_number(const ConstantOperand& operand, const FileTensors& tensors, Contents& contents) {
  const TensorData stored = contents.data(tensors[operand.tensor]);
  if (!operand.is_quantised()) return is_floating(stored.dtype) ? uniform_number(stored) : std::nullopt;
  const auto integer = uniform_number(stored), scale = uniform_number(contents.data(tensors[operand.scale]));
  const auto zero = operand.zero == no_tensor ? 0.0 : uniform_number(contents.data(tensors[operand.zero]));
  return integer && scale && zero ? std::optional((*integer - *zero) * *scale) : std::nullopt;
}

}  // namespace whence::comparison
