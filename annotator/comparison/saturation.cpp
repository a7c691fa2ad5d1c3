#include "annotator/comparison/saturation.h"

#include <algorithm>
#include <array>
#include <limits>

#include "annotator/program/tensor_values.h"

namespace whence::comparison {

using derivation::no_tensor;
using derivation::TensorNumber;

namespace {

// An operator that writes integers, and its inputs with their scale and zero point.
struct IntegerOperator {
  std::string_view op_type;
  std::size_t scale, zero;
};
constexpr std::array<IntegerOperator, 6> integer_operators = {{
    {"QuantizeLinear", 1, 2},
    {"QLinearConv", 6, 7},
    {"QLinearMatMul", 6, 7},
    {"QLinearAdd", 6, 7},
    {"QLinearMul", 6, 7},
    {"QGemm", 7, 8},
}};

std::optional<std::pair<double, double>> limits_of(DType dtype) {
  const auto limits = []<class T>(T) {
    return std::pair<double, double>(std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  };
  if (dtype == DType::int8) return limits(std::int8_t());
  if (dtype == DType::uint8) return limits(std::uint8_t());
  if (dtype == DType::int16) return limits(std::int16_t());
  if (dtype == DType::uint16) return limits(std::uint16_t());
  return std::nullopt;
}

}  // namespace

bool Saturation::is_within(const onnx_file::OnnxNode& node, const std::pair<double, double>& bounds) const {
  const auto* const row = std::ranges::find(integer_operators, node.op_type, &IntegerOperator::op_type);
  if (row == integer_operators.end() || node.inputs.size() <= row->zero) return false;
  const auto number_of = [&](std::size_t slot) -> std::optional<double> {
    const TensorNumber tensor = tensors_.find(node.inputs[slot]);
    if (tensor == no_tensor) return std::nullopt;
    const TensorData data = contents_.data(tensors_[tensor]);
    const auto elements = program::Elements::of(data);
    return elements && elements->size() == 1 ? std::optional(elements->number(0)) : std::nullopt;
  };
  const auto scale = number_of(row->scale), zero = number_of(row->zero);
  if (!scale || !zero) return false;
  const auto limits = limits_of(from_onnx(tensors_[tensors_.find(node.inputs[row->zero])].tensor->data_type));
  constexpr double rounding = 1e-6;
  return limits && *scale * (limits->first - *zero) >= bounds.first &&
         *scale * (limits->second - *zero) <= bounds.second * (1 + rounding);
}

}  // namespace whence::comparison
