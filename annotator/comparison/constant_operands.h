// The constants that a node computes with, also those that the file stores as integers with one scale.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "annotator/derivation/contents.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "schema/tensor_data.h"

namespace whence::comparison {

struct ConstantOperand {
  std::size_t slot = 0;  // among the inputs of the plain operator: 1 for the second operand of a QLinearMul
  derivation::TensorNumber tensor = derivation::no_tensor, scale = derivation::no_tensor,
                           zero = derivation::no_tensor;  // no scale: not quantised

  bool is_quantised() const { return scale != derivation::no_tensor; }
};

// Returns the operands of a node that are constant tensors, or integers that a DequantizeLinear or an operator on
// quantised values reads.
std::vector<ConstantOperand> constant_operands(const onnx_file::OnnxNode& node, const derivation::FileTensors& tensors);

// Returns the number that all elements of an operand have; nullopt if they differ, or have no number.
std::optional<double> uniform_number(const ConstantOperand& operand, const derivation::FileTensors& tensors,
                                     derivation::Contents& contents);
std::optional<double> uniform_number(const TensorData& data);

}  // namespace whence::comparison
