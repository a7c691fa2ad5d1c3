// Compares the windows of a MaxPool with those of another that states them otherwise. Padding adds no number to a
// window, so that padding at the end only decides how many windows there are, as rounding their number up does.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "annotator/graph/graph.h"

namespace whence::comparison {

// Returns whether the program's node has the same windows with this padding (empty: none) and rounding; nullopt for
// dynamic sizes.
std::optional<bool> has_windows_of(const graph::Graph& graph, const graph::GraphNode& node,
                                   std::vector<std::int64_t> pads, bool rounds_up);

}  // namespace whence::comparison
