// A sketch: sampled elements that identify a weight in a file that changed all its bytes by quantisation to int8 or
// int4, a folded batch norm, a transpose, or concatenation.
//
// The weight is treated as a matrix (MatrixForm). The sketch has up to 192 elements from up to 16 rows, or from more
// rows if they are short. Each row is scaled to a largest magnitude of 127. Rows are compared one by one, so that the
// scale and zero point of a row do not matter, and an element can be found in any arrangement of the matrix.
// docs/matching.md specifies the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schema/tensor_data.h"

namespace whence {

// A weight as a matrix of axis 0 by all other axes: one row for each output channel in PyTorch's layers. A vector is
// one row.
struct MatrixForm {
  std::int64_t rows = 0, columns = 0;
  auto operator<=>(const MatrixForm&) const = default;
};
MatrixForm matrix_form(std::span<const std::int64_t> shape);

// The sampled positions, which depend only on the form: `per_row` ascending columns in each of the ascending `rows`.
struct SketchPlaces {
  std::vector<std::int64_t> rows, columns;  // per_row columns for each row, one row after the other
  std::size_t per_row = 0;
};
SketchPlaces sketch_places(MatrixForm form);

constexpr std::int64_t min_sketched_elements = 24;  // minimum number of elements of a sketched tensor

// Returns the sketch. A row is 0 if all its elements are 0 or one is not finite. Empty for tensors with fewer than
// min_sketched_elements elements or a dtype other than float16, bfloat16, float32 and float64, and if the bytes are not
// in memory.
std::vector<std::int8_t> sketch_of(const TensorData& data);

}  // namespace whence
