// Functions whose ONNX operators runtimes have in 32 bits and less: ONNX Runtime's CPU provider does not load a file
// with one of them in float64. Each is its operator, and in float64 what it is made of. Any shape; NaN and infinities
// as in PyTorch. Erf, Acos, Asin, Atan and Conv have no such form: tests/ops/runtime_gaps.py lists them.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

Val softplus_of(Ctx& c, Val x);                  // log(1 + exp(x))
Val hard_sigmoid_of(Ctx& c, Val x);              // min(max(x + 3, 0), 6) / 6
Val leaky_relu_of(Ctx& c, Val x, double slope);  // x where x > 0, slope * x elsewhere
Val prelu_of(Ctx& c, Val x, Val slope);          // the same with slopes that broadcast against x
Val sinh_of(Ctx& c, Val x);
Val cosh_of(Ctx& c, Val x);
Val tan_of(Ctx& c, Val x);
Val asinh_of(Ctx& c, Val x);
Val acosh_of(Ctx& c, Val x);
Val atanh_of(Ctx& c, Val x);

}  // namespace whence::convert
