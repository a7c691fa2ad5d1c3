// The main operation of a fused operator: the attention product of a GroupQueryAttention, the matrix product of a
// FusedConv, the normalization of a SkipLayerNormalization. Users mean its module when they ask where the node is from.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace whence::operators {

// Returns the positions in `parts` of the operations that an operator of type `op_type` is named after, ascending. If
// there is none, returns the last position: the last operation computes the result.
// `parts`: the operations that the operator replaced, at least one, in the order of the computation: operator types of
// ONNX, or operators of PyTorch ("aten::linear").
std::vector<std::size_t> main_operations(std::string_view op_type, const std::vector<std::string_view>& parts);

}  // namespace whence::operators
