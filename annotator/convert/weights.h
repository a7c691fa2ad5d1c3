// Constant arithmetic on weights while exporting: what ONNX wants laid out differently from PyTorch is rearranged once,
// here, and becomes an initializer, so that no node is left to do it on every run.
//
// Called by converters. Works on bytes, whatever the element type is; values are never interpreted.
// The results of permuted(), rows() and concatenated() own new memory; reshaped() shares the original's.
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
// The same for a weight that nothing reads before it is written: a large one takes memory only during its writing.
TensorData transposed_when_written(const TensorData& matrix);
// The same bytes under another shape of as many elements.
TensorData reshaped(TensorData tensor, const Ints& shape);
// Rows [begin, end) along axis 0.
TensorData rows(const TensorData& tensor, std::int64_t begin, std::int64_t end);
// Joined along axis 0; all parts share dtype and the other sizes.
TensorData concatenated(const std::vector<TensorData>& parts);
// Every element is `value`.
TensorData filled(const Ints& shape, double value, DType dtype);

// An initializer computed from the constant `source`, named "<name of source>.<suffix>". Made once per graph, however
// many operations ask for it: `suffix` must determine what `make` computes.
Val derived_constant(Ctx& c, Val source, std::string_view suffix,
                     const std::function<TensorData(const TensorData&)>& make);

// A constant [C] weight as [C, 1, ..., 1] with `trailing` ones, so that it applies to axis 1 of a tensor; a node when
// the weight is computed at run time.
Val per_channel(Ctx& c, Val weight, int trailing);

}  // namespace whence::convert
