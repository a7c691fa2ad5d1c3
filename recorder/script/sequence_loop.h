// Joins two sequences or reverses one, by a loop over the elements: ONNX has no operator for either.
#pragma once

#include "recorder/script/recording.h"

namespace whence::recorder::script {

// Returns `start` with the elements of `other` added one by one, at the end or in front; in front their order is
// reversed. Both are sequences; `element` is the declared type of their elements.
Term with_elements(Recording& recording, const Term& start, const Term& other, const c10::TypePtr& element,
                   bool in_front, const Origin& origin);

}  // namespace whence::recorder::script
