// Chooses the module calls that become functions.
#pragma once

#include <vector>

#include "annotator/functions/outline.h"
#include "annotator/functions/work_graph.h"

namespace whence::functions {

// The root is never among them. Errors: usage, with the nearest names, for a pattern or class that matches nothing, and
// when no module is repeated where repeated ones are asked for.
std::vector<CallIndex> selected_calls(const WorkGraph& graph, const FunctionChoice& options);

}  // namespace whence::functions
