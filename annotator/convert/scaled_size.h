// Sizes that are resized by a factor: PyTorch multiplies in float64, ONNX Runtime in float32, and 2.3 times 100 is 229
// in one and 230 in the other.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// Rounded down; -1 for what no size can be, since a file may name any factor.
std::int64_t whole_size(double at);

// floor(size * factor), as ONNX Runtime computes it.
std::int64_t scaled_size(std::int64_t size, float factor);

// Returns a factor for a Resize of any size, whose result is never shorter than PyTorch's.
float factor_for_any_size(double factor);

// True if a Resize by that factor makes more elements than PyTorch does, at some size up to 16,384.
bool may_round_up(double factor);

// True if the factor is above 1 and leaves an axis of two elements or more as long as it is, as 1.1 does 8.
bool may_keep_size(double factor);

// The number of elements that PyTorch makes of those along `axis`, int64 [].
Val size_by_factor(Ctx& c, Val x, std::int64_t axis, double factor);

}  // namespace whence::convert
