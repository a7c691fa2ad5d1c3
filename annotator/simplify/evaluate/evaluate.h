// Evaluates one node of the standard domain with constant inputs, as ONNX defines the operator. Called by
// rules/fold_constants.cpp, which decides whether the result is worth storing.
//
// Guaranteed: Add, Sub, Mul, Div and Sqrt give the same bits as PyTorch and ONNX Runtime; other functions give the
// nearest number, and sums and products are at least as accurate as theirs. Integer arithmetic wraps. Not evaluated
// (nullopt): operators that are not in the table of evaluate.cpp, dtypes without a number form if numbers are needed,
// errors that runtimes must report (indices out of range, integer division by zero), and results of more than
// `most_bytes`.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "annotator/graph/graph.h"

namespace whence::simplify {

// nullptr is an absent optional input.
using Constants = std::vector<const TensorData*>;

bool can_evaluate(const graph::GraphNode& node);
// Requires can_evaluate(node).
std::optional<TensorData> evaluate(const graph::GraphNode& node, const Constants& inputs, std::uint64_t most_bytes);

}  // namespace whence::simplify
