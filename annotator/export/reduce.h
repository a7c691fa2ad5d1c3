// Reductions over given axes, whichever way the opset wants the axes passed: ReduceSum takes them as an input since
// opset 13, the others since opset 18.
#pragma once

#include <string_view>

#include "annotator/export/ctx.h"

namespace whence {

// `op_type` is ReduceSum, ReduceMean, ReduceMax, ReduceL2, ...; empty `axes` means all of them.
Val reduce(Ctx& c, std::string_view op_type, Val value, const Ints& axes, bool keep_dims);

// ReduceMean, which runtimes answer 0 for when there is nothing; PyTorch says NaN.
Val reduce_mean(Ctx& c, Val value, const Ints& axes, bool keep_dims);

}  // namespace whence
