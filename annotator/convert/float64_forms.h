// Runtimes implement the ONNX operators of these functions only in 32 bits or fewer: ONNX Runtime's CPU provider does
// not load a file that has one of them in float64. Each function emits its operator, or for float64 a composition of
// simpler ones. Accepts any shape; NaN and infinities give the same results as in PyTorch. Erf, Acos, Asin, Atan and
// Conv have no such composition: tests/ops/runtime_gaps.py lists them.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

Val softplus_of(Ctx& c, Val x);                  // log(1 + exp(x))
Val hard_sigmoid_of(Ctx& c, Val x);              // min(max(x + 3, 0), 6) / 6
Val leaky_relu_of(Ctx& c, Val x, double slope);  // x where x > 0, slope * x elsewhere
Val prelu_of(Ctx& c, Val x, Val slope);          // like leaky_relu_of, with slopes that broadcast against x
Val sinh_of(Ctx& c, Val x);
Val cosh_of(Ctx& c, Val x);
Val tan_of(Ctx& c, Val x);
Val asinh_of(Ctx& c, Val x);
Val acosh_of(Ctx& c, Val x);
Val atanh_of(Ctx& c, Val x);

}  // namespace whence::convert
