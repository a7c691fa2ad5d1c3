// The methods of lists, tuples and dicts whose items the evaluator holds: one table, by the operator's name.
#pragma once

#include "recorder/script/recording.h"

namespace whence::recorder::script {

// Carries out a method of the container that is the node's first input. Returns false if the node is not a method but
// an operator that takes the container. Throws Error unsupported_feature.
bool carry_out_method(Recording& recording, const Step& step);

// Returns the position of `index` in `container`; a negative index counts from the end. Throws Error
// unsupported_feature if the index depends on the input or is out of range.
std::size_t position_in(const Term& container, const Term& index);

}  // namespace whence::recorder::script
