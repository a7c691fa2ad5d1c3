// Sizes scaled by a factor: PyTorch multiplies in float64, ONNX Runtime in float32, and 2.3 times 100 gives 229 in one
// and 230 in the other.
#pragma once

#include "annotator/convert/ctx.h"

namespace whence::convert {

// Rounds down; returns -1 for a number that no size can have, because a file may hold any factor.
std::int64_t whole_size(double at);

// Returns floor(size * factor), as ONNX Runtime computes it.
std::int64_t scaled_size(std::int64_t size, float factor);

// Returns a factor with which Resize never gives a shorter result than PyTorch, whatever the size.
float factor_for_any_size(double factor);

// Returns true if a Resize by that factor makes more elements than PyTorch does, at some size up to 16,384.
bool may_round_up(double factor);

// Returns true if the factor is above 1 but leaves some size of two or more unchanged, as 1.1 does 8.
bool may_keep_size(double factor);

// Returns the number of elements to which PyTorch resizes `axis`, int64 [].
Val size_by_factor(Ctx& c, Val x, std::int64_t axis, double factor);

}  // namespace whence::convert
