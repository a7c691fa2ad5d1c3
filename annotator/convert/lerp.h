// start + weight * (end - start), computed from the nearer end as PyTorch does (ATen/native/Lerp.h, 2.13): exact at
// both ends, infinities included. All operands have the dtype of `start` and broadcast.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

Val lerp_by(Ctx& c, Val start, Val end, double weight);
Val lerp_by(Ctx& c, Val start, Val end, Val weight);

}  // namespace whence::convert
