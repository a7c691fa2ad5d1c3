// Quotients and remainders with PyTorch's roundings; ONNX has only true division, truncating integer division and two
// kinds of Mod.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// x, y and the result have the same dtype, `dtype`.
Val floor_quotient(Ctx& c, Val x, Val y, DType dtype);   // rounds towards minus infinity
Val floor_remainder(Ctx& c, Val x, Val y, DType dtype);  // has the sign of y, like Python's %
Val truncated(Ctx& c, Val x);                            // rounds a floating x towards zero

}  // namespace whence::convert
