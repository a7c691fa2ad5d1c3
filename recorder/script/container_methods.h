// The methods of lists, tuples and dicts whose items the evaluator holds: one table, by the operator's name.
#pragma once

#include "recorder/script/recording.h"

namespace whence::recorder {

// Carries out a method of the container that is the node's first input. Returns false where the node is an operator
// that takes the container. Throws Error unsupported_feature.
bool carry_out_method(Recording& recording, const Step& step);

// The place in `container` that `index` means, counted from the end where it is negative. Throws Error
// unsupported_feature where it depends on the input, or the container does not have it.
std::size_t position_in(const Term& container, const Term& index);

}  // namespace whence::recorder
