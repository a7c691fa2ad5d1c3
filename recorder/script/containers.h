// Evaluates nodes on lists, tuples and dicts whose items the evaluator holds. A Program has no such containers.
#pragma once

#include "recorder/script/recording.h"

namespace whence::recorder::script {

// Carries out a node that builds, takes apart, reads, changes or inspects a container or another host object. Returns
// false if the node is an operation. Throws Error unsupported_feature if an index or key depends on the input, or if
// the method is unsupported and changes the container.
bool carry_out_on_host_object(Recording& recording, const Step& step);

}  // namespace whence::recorder::script
