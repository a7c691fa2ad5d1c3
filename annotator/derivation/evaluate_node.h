// Evaluates a node of a graph whose inputs are known, also one that only moves elements, which the evaluation of
// simplify/ leaves to the simplification of graphs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "annotator/graph/graph.h"
#include "annotator/simplify/evaluate/evaluate.h"
#include "schema/tensor_data.h"

namespace whence::derivation {

bool can_evaluate(const graph::Graph& graph, const graph::GraphNode& node);
// Requires can_evaluate(). Returns nullopt if the result would be larger than `most_bytes`, or is not defined.
std::optional<TensorData> evaluate(const graph::Graph& graph, const graph::GraphNode& node,
                                   const simplify::Constants& inputs, std::uint64_t most_bytes);

// Returns the results of a Split, in their order; empty for other nodes, and for dynamic sizes.
std::vector<TensorData> parts_of_split(const graph::Graph& graph, const graph::GraphNode& node, const TensorData& data);

}  // namespace whence::derivation
