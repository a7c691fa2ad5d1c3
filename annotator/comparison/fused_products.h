// Computes ONNX Runtime's FusedMatMul: a product of two values, which it may read turned, times a number.
#pragma once

#include <optional>

#include "annotator/graph/graph.h"
#include "schema/tensor_data.h"

namespace whence::comparison {

// Returns nullopt for sizes that do not fit. Requires data in memory.
std::optional<TensorData> fused_product(const graph::GraphNode& node, const TensorData& left, const TensorData& right);

}  // namespace whence::comparison
