// QuantisedOperator: an operator of ONNX Runtime that reads and writes integers with their scales and zero points, and
// the operator on floating-point numbers that it stands for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/node_attributes.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

struct QuantisedOperator {
  std::string_view plain;                // the operator that it stands for
  std::vector<std::size_t> operands;     // slots of the integers; the scale and the zero point follow each
  std::optional<std::size_t> bias = {};  // of int32, with the product of the operands' scales
  std::size_t result = 0;                // slot of the result's scale; its zero point follows
};

// Returns nullopt for other operators, and if inputs are missing.
inline std::optional<QuantisedOperator> quantised_inputs(const onnx_file::OnnxNode& node) {
  static const std::map<std::string_view, QuantisedOperator> rows = {
      {"QGemm", {"Gemm", {0, 3}, 6}},
      {"QLinearAdd", {"Add", {0, 3}}},
      {"QLinearAveragePool", {"AveragePool", {0}}},
      {"QLinearConv", {"Conv", {0, 3}, 8}},
      {"QLinearGlobalAveragePool", {"GlobalAveragePool", {0}}},
      {"QLinearLeakyRelu", {"LeakyRelu", {0}}},
      {"QLinearMatMul", {"MatMul", {0, 3}}},
      {"QLinearMul", {"Mul", {0, 3}}},
      {"QLinearReduceMean", {"ReduceMean", {0}}},
      {"QLinearSigmoid", {"Sigmoid", {0}}},
      {"QLinearSoftmax", {"Softmax", {0}}},
  };
  QuantisedOperator found;
  if (node.op_type == "QLinearConcat") {
    // The scale and zero point of the result come first.
    found.plain = "Concat";
    for (std::size_t slot = 2; slot < node.inputs.size(); slot += 3) found.operands.push_back(slot);
  } else if (const auto row = rows.find(node.op_type); row != rows.end()) {
    found = row->second;
    found.result = found.bias.value_or(found.operands.back() + 2) + 1;
    if (node.op_type == "QLinearConv") found.result = *found.bias - 2;
  }
  const auto has_scale = [&](std::size_t slot) { return slot + 2 < node.inputs.size(); };
  return !found.operands.empty() && std::ranges::all_of(found.operands, has_scale) ? std::optional(found)
                                                                                   : std::nullopt;
}

// As quantised_inputs(), without operators whose settings change what they stand for.
inline std::optional<QuantisedOperator> quantised_operator(const onnx_file::OnnxNode& node) {
  constexpr std::int64_t one_axis = 13;  // the opset since which a Softmax is along one axis
  const bool is_plain = onnx_file::integer_attribute(node, "channels_last", 0) == 0 &&
                        onnx_file::integer_attribute(node, "opset", one_axis) >= one_axis;
  return is_plain ? quantised_inputs(node) : std::nullopt;
}

}  // namespace whence::comparison
