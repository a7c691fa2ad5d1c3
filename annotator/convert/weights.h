// Rearranges constant weights at export: a weight that ONNX lays out differently from PyTorch becomes an initializer in
// ONNX's layout, so that no node has to rearrange it on every run.
//
// Called by converters. Works on bytes of any element type; values are never interpreted. The results of permuted(),
// rows() and concatenated() own new memory; reshaped() shares the original's.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "annotator/convert/ctx.h"
#include "schema/tensor_data.h"

namespace whence::convert {

// Axis i of the result is axis permutation[i] of `tensor`.
TensorData permuted(const TensorData& tensor, const Ints& permutation);
TensorData transposed(const TensorData& matrix);
// Like transposed(), for a weight that nothing reads before it is written: a large one uses memory only while it is
// written.
TensorData transposed_when_written(const TensorData& matrix);
// Returns the same bytes under another shape with as many elements.
TensorData reshaped(TensorData tensor, const Ints& shape);
// Returns rows [begin, end) along axis 0.
TensorData rows(const TensorData& tensor, std::int64_t begin, std::int64_t end);
// Joins the parts along axis 0; all have the same dtype and the same other sizes.
TensorData concatenated(const std::vector<TensorData>& parts);
// Returns a tensor in which every element is `value`.
TensorData filled(const Ints& shape, double value, DType dtype);

// Returns an initializer computed from the constant `source`, named "<name of source>.<suffix>". Made once per graph,
// however many operations need it: `suffix` must determine what `make` computes.
Val derived_constant(Ctx& c, Val source, std::string_view suffix,
                     const std::function<TensorData(const TensorData&)>& make);

// Reshapes a constant [C] weight to [C, 1, ..., 1] with `trailing` ones, so that it applies to axis 1 of a tensor;
// emits a node if the weight is computed at run time.
Val per_channel(Ctx& c, Val weight, int trailing);

}  // namespace whence::convert
