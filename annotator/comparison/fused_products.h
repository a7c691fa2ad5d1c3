// Computes products of two values: MatMul, and ONNX Runtime's FusedMatMul, which may read its operands turned and
// multiplies by a number.
#pragma once

#include <optional>

#include "annotator/graph/graph.h"
#include "schema/tensor_data.h"

namespace whence::comparison {

// Returns the product [..., m, n] of [..., m, k] and [..., k, n] in single precision; the axes before the last two are
// repeated as needed. Returns nullopt for other dtypes and ranks, sizes that do not fit, and very large products.
// Requires data in memory.
std::optional<TensorData> matrix_product(const TensorData& left, const TensorData& right);

// Returns nullopt for sizes that do not fit. Requires data in memory.
std::optional<TensorData> fused_product(const graph::GraphNode& node, const TensorData& left, const TensorData& right);

}  // namespace whence::comparison
