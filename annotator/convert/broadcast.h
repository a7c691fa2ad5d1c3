// Sizes of values, and values expanded to the shape of others, with as little work at run time as possible.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// Returns the size of an axis of `value`: a number if it is static, else computed at run time.
Size size_of_axis(Ctx& c, Val value, std::int64_t axis);
std::vector<Size> shape_of(Ctx& c, Val value);

// Returns the shape that `values` broadcast to.
std::vector<Size> broadcast_shape(Ctx& c, const std::vector<Val>& values);

// Expands `value` to the shape that it and `others` broadcast to; returns it unchanged if it already has that shape.
Val broadcast(Ctx& c, Val value, const std::vector<Val>& others);

}  // namespace whence::convert
