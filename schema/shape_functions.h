// Computes the result sizes of an operator from the sizes of its tensors, its integer arguments and literals. One row
// for each operator (shapes/table.cpp), without LibTorch; tests/schema/test_shape_functions.py compares each row with
// PyTorch.
//
// The recorder calls it for every operation of an archive. A known size equals PyTorch's in every run in which PyTorch
// accepts the arguments.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "schema/program.h"

namespace whence {

using Shape = std::vector<Size>;

// What is known about the operands of an operation.
struct ShapeFacts {
  std::function<const Shape*(ValueId)> shape_of;  // null for an unknown rank; empty shape for a number
  std::function<Size(ValueId)> number_of;         // the value of an integer or of a 0-d integer tensor
  std::function<bool(ValueId)> is_mask;           // true for a bool tensor, which selects elements as an index
  SymbolRanges ranges;
};

// Returns the shapes of the tensors among the results, in order. A size is unknown if it depends on data or cannot be
// expressed. nullopt for an operator without a row, or arguments that the row does not support.
std::optional<std::vector<Shape>> shapes_of_results(const Node& node, const ShapeFacts& facts);

// Returns the integer that an operation computes from integers and shapes, as a number or a 0-d tensor.
Size number_of_result(const Node& node, const ShapeFacts& facts);

// Lists the operators with a row, by name. In-place operators, which return their first argument, have none.
std::vector<std::string_view> operators_with_shapes();

}  // namespace whence
