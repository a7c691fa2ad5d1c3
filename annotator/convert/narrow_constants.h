// Numbers of a program that the narrow dtype of a result cannot hold, such as the -1e9 of a mask in float16.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// Returns the dtype in which to compute an operator of x and y that yields `dtype`: float32 if x or y is a constant
// that float16 or bfloat16 would hold as infinity, as 0 or with fewer digits, otherwise `dtype`. PyTorch's kernels take
// a number in float32 and round the result: 0 * -1e9 is 0, not NaN.
DType dtype_for_numbers(Ctx& c, DType dtype, Val x, Val y);

}  // namespace whence::convert
