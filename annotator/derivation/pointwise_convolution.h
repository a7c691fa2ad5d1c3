// A convolution with windows of one element is a product of matrices at each place.
#pragma once

#include <cstdint>
#include <optional>

#include "annotator/graph/graph.h"
#include "annotator/simplify/evaluate/evaluate.h"
#include "schema/tensor_data.h"

namespace whence::derivation {

bool is_pointwise_convolution(const graph::Graph& graph, const graph::GraphNode& node);
// Requires is_pointwise_convolution(). Returns nullopt if sizes do not fit or the result would be larger than
// `most_bytes`.
std::optional<TensorData> pointwise_convolution(const simplify::Constants& inputs, std::uint64_t most_bytes);

}  // namespace whence::derivation
