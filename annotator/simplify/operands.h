// Finds the constant number among the operands of a commutative node.
#pragma once

#include <optional>

#include "annotator/program/tensor_values.h"
#include "annotator/simplify/rewriter.h"

namespace whence::simplify {

// The operands of a node with two operands, one of them a constant of rank 0.
struct WithNumber {
  graph::GraphValueId x, number_value;
  double number;
};

inline std::optional<WithNumber> with_number(const Rewriter& r, const graph::GraphNode& node) {
  if (node.inputs.size() != 2) return std::nullopt;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const TensorData* data = r.constant(node.inputs[side]);
    const auto number = data != nullptr && data->shape.empty() ? program::single_number(*data) : std::nullopt;
    if (number) return WithNumber{node.inputs[1 - side], node.inputs[side], *number};
  }
  return std::nullopt;
}

}  // namespace whence::simplify
