// Quotients and remainders of tensors in PyTorch's roundings; ONNX has true division, truncating division of integers
// and two kinds of Mod only.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// x and y have the same dtype, `dtype`, which is also that of the result.
Val floor_quotient(Ctx& c, Val x, Val y, DType dtype);   // rounds towards minus infinity
Val floor_remainder(Ctx& c, Val x, Val y, DType dtype);  // has the sign of y, as Python's %
Val truncated(Ctx& c, Val x);                            // a floating x rounded towards zero

}  // namespace whence::convert
