// Reductions over given axes, whichever way the opset wants the axes passed: ReduceSum takes them as an input since
// opset 13, the others since opset 18.
#pragma once

#include <string_view>

#include "annotator/convert/ctx.h"

namespace whence::convert {

// `op_type` is ReduceSum, ReduceMean, ReduceMax, ReduceL2, ...; empty `axes` means all of them.
Val reduce(Ctx& c, std::string_view op_type, Val value, const Ints& axes, bool keep_dims);

// ReduceMean. Of no elements runtimes answer 0 and PyTorch NaN, which is added where an axis may be empty.
Val reduce_mean(Ctx& c, Val value, const Ints& axes, bool keep_dims);

// ReduceMax, ReduceMin or ReduceLogSumExp, where runtimes overlook NaN; PyTorch answers NaN.
Val reduce_with_nan(Ctx& c, std::string_view op_type, Val value, const Ints& axes, bool keep_dims);

// `value` with the greatest number of all (with `greatest` false: the least) in the place of NaN alone, so that ArgMax
// (ArgMin) finds the NaN, as PyTorch does. Infinities become the dtype's largest numbers.
Val with_nan_as_extreme(Ctx& c, Val value, bool greatest);

// The product of the sizes of these axes (all of them when empty), as a number of the value's dtype.
Val element_count(Ctx& c, Val value, const Ints& axes);

}  // namespace whence::convert
