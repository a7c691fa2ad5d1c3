// Finds out which sizes of an operation's results follow sizes that depend on data: the operation is executed once more
// on tensors that are longer there, and on tensors that are 1 long.
#pragma once

#include "recorder/script/execution.h"

namespace whence::recorder::script {

// Returns, for each tensor of the results in order, which of its sizes change. `results`: those of the first run. Empty
// where that cannot be found out: the operation writes or draws numbers, is not ATen's, or does not accept such
// tensors.
std::optional<ChangedSizes> changed_sizes(const Recording& recording, const Step& step,
                                          const std::vector<Term>& arguments, const std::vector<c10::IValue>& results);

}  // namespace whence::recorder::script
