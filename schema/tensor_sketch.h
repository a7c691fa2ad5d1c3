// TensorSketch: a few elements of a weight, by which it is found again in a file that changed every byte of it: int8,
// int4, a batch norm that was folded in, a transpose, one tensor made of several.
//
// The weight is seen as a matrix (MatrixForm). From up to 16 of its rows, or more short ones, up to 192 elements are
// kept, each row's scaled so that the largest magnitude is 127. Comparing row by row does not depend on the scale or
// the zero point of a row, and a place can be looked up in any arrangement of the matrix. docs/matching.md gives the
// recipe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schema/tensor_data.h"

namespace whence {

// Axis 0 and all others: a row for each channel of the result, in PyTorch's layers. A vector is one
// row.
struct MatrixForm {
  std::int64_t rows = 0, columns = 0;
  auto operator<=>(const MatrixForm&) const = default;
};
MatrixForm matrix_form(std::span<const std::int64_t> shape);

// The places of a form, the same for every tensor: `per_row` columns, ascending, in each of `rows`, ascending.
struct SketchPlaces {
  std::vector<std::int64_t> rows, columns;  // columns: per_row for each row
  std::size_t per_row = 0;
};
SketchPlaces sketch_places(MatrixForm form);

constexpr std::int64_t fewest_sketched = 24;  // elements of a tensor

// A row of 0 where its elements are all 0 or one is not finite. Nothing for tensors of less than fewest_sketched
// elements, of a dtype that is not floating-point, and where the bytes are not at hand.
std::vector<std::int8_t> sketch_of(const TensorData& data);

}  // namespace whence
