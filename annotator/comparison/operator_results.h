// Computes the results of one node from known inputs, also for operators that stand for several others: norms,
// activations, pools, interpolation. Floating-point numbers are float32; each result is within its rounding.
#pragma once

#include <optional>
#include <vector>

#include "annotator/graph/graph.h"
#include "annotator/simplify/evaluate/evaluate.h"
#include "schema/tensor_data.h"

namespace whence::comparison {

// Returns a result for each output; nullopt for unknown operators and settings, and for large results. nullptr is an
// absent optional input.
std::optional<std::vector<TensorData>> results_of(const graph::GraphNode& node, const simplify::Constants& inputs);

}  // namespace whence::comparison
