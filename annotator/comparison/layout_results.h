// Computes what operators do that only move the elements of a tensor in blocks.
#pragma once

#include <optional>

#include "annotator/graph/graph.h"
#include "schema/tensor_data.h"

namespace whence::comparison {

// DepthToSpace and SpaceToDepth; nullopt for other operators and sizes that do not fit. Requires data in memory.
std::optional<TensorData> blocks_moved(const graph::GraphNode& node, const TensorData& data);

}  // namespace whence::comparison
