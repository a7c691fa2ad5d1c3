// Chooses the module calls that become functions.
#pragma once

#include <vector>

#include "annotator/functions/outline.h"
#include "annotator/functions/work_graph.h"

namespace whence::functions {

// Returns the chosen calls, never the root. Errors: usage for a pattern or class that matches nothing (with the nearest
// names), and for the automatic choice if no module is repeated.
std::vector<CallIndex> selected_calls(const WorkGraph& graph, const FunctionChoice& options);

}  // namespace whence::functions
