// Another form of a program's sums of squares: other exporters compute a variance by the mean of the squares, times
// their number.
#pragma once

#include <optional>

#include "annotator/graph/graph.h"

namespace whence::derivation {

// Returns a copy of the graph with means in the place of sums of squares over axes of static size; nullopt if it has
// none.
std::optional<graph::Graph> with_means(const graph::Graph& graph);

}  // namespace whence::derivation
