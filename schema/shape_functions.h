// The sizes of an operator's results as Sizes: from those of its tensors, from the integers that it is given, and from
// literals. One row an operator (shapes/table.cpp), free of LibTorch; tests/schema/test_shape_functions.py holds
// each row against PyTorch.
//
// Who asks: the recorder, of every operation of an archive. Guaranteed: a size that is known is PyTorch's in every run
// in which PyTorch accepts the arguments.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "schema/program.h"

namespace whence {

using Shape = std::vector<Size>;

// The facts on the values that an operation reads.
struct ShapeFacts {
  std::function<const Shape*(ValueId)> shape_of;  // null where the rank is not known; a number has no axes
  std::function<Size(ValueId)> number_of;         // an integer, also one in a tensor without axes
  std::function<bool(ValueId)> is_mask;           // a tensor of flags, which as an index chooses elements
  SymbolRanges ranges;
};

// The shapes of the tensors among the results, in order; a size that is unknown is one that data decide, or that has no
// form. nullopt where nothing is known: for an operator without a row, and for arguments that its row does not know.
std::optional<std::vector<Shape>> shapes_of_results(const Node& node, const ShapeFacts& facts);

// The integer that an operation computes from integers and shapes, as a number or in a tensor without axes.
Size number_of_result(const Node& node, const ShapeFacts& facts);

// Operators with a row, by name; in-place ones, which return their first argument, have none.
std::vector<std::string_view> operators_with_shapes();

}  // namespace whence
