// Computes pools and interpolation, which read windows of each channel.
#pragma once

#include <optional>

#include "annotator/comparison/numbers_of_node.h"
#include "annotator/graph/graph.h"

namespace whence::comparison {

// Return nullopt for settings that are not known. `x`: [N, C, ...].
std::optional<Numbers> pooled(const graph::GraphNode& node, const Numbers& x);
std::optional<Numbers> interpolated(const graph::GraphNode& node, const Numbers& x, const simplify::Constants& inputs);
// Mirrors or repeats elements at the borders.
std::optional<Numbers> padded(const graph::GraphNode& node, const Numbers& x, const Sizes64& pads);

}  // namespace whence::comparison
