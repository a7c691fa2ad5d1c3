// Reductions over given axes, which are passed as the opset requires: ReduceSum takes them as an input since opset 13,
// the other reductions since opset 18.
#pragma once

#include <string_view>

#include "annotator/convert/ctx.h"

namespace whence::convert {

// `op_type` is ReduceSum, ReduceMean, ReduceMax, ReduceL2, ...; empty `axes` means all of them.
Val reduce(Ctx& c, std::string_view op_type, Val value, const Ints& axes, bool keep_dims);

// ReduceMean with PyTorch's NaN for an empty axis, where runtimes give 0; extra nodes only if an axis may be empty.
Val reduce_mean(Ctx& c, Val value, const Ints& axes, bool keep_dims);

// ReduceMax, ReduceMin or ReduceLogSumExp that gives NaN if an element is NaN, like PyTorch; runtimes ignore NaN.
Val reduce_with_nan(Ctx& c, std::string_view op_type, Val value, const Ints& axes, bool keep_dims);

// Replaces NaN with infinity (-infinity if `greatest` is false), so that ArgMax (ArgMin) finds the NaN as PyTorch does.
// Elements that were infinite become the dtype's largest finite number.
Val with_nan_as_extreme(Ctx& c, Val value, bool greatest);

// Returns the product of the sizes of these axes (of all axes if empty), as a number of the value's dtype.
Val element_count(Ctx& c, Val value, const Ints& axes);

}  // namespace whence::convert
