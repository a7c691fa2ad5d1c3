// Sizes of values, and values expanded to the shape of others, with as little of it as possible left to run time.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// The size of an axis of `value`: a number when it is static, else computed at run time.
Size size_of_axis(Ctx& c, Val value, std::int64_t axis);
std::vector<Size> shape_of(Ctx& c, Val value);

// The shape that `values` broadcast to.
std::vector<Size> broadcast_shape(Ctx& c, const std::vector<Val>& values);

// `value` expanded to the shape that it and `others` broadcast to; as it is when it has that shape already.
Val broadcast(Ctx& c, Val value, const std::vector<Val>& others);

}  // namespace whence::convert
