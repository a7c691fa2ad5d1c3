// Evaluates one node of the standard domain whose inputs are all constants, as ONNX defines the operator.
// Called by rules/fold_constants.cpp, which decides whether the result is worth storing.
//
// Guaranteed: Add, Sub, Mul, Div and Sqrt give the bits that PyTorch and ONNX Runtime give; other functions the nearest
// number, and sums and products are at least as near the truth as theirs. Integer arithmetic wraps.
// Not evaluated (nullopt): operators that are not in the table of evaluate.cpp, dtypes without a number form where
// numbers are needed, what runtimes must report (indices out of range, integer division by zero), and results of more
// than `most_bytes`.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "annotator/graph/graph.h"

namespace whence::simplify {

// nullptr stands for an optional input that is left out.
using Constants = std::vector<const TensorData*>;

bool can_evaluate(const graph::GraphNode& node);
// Requires can_evaluate(node).
std::optional<TensorData> evaluate(const graph::GraphNode& node, const Constants& inputs, std::uint64_t most_bytes);

}  // namespace whence::simplify
