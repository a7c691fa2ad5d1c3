// Estimates the floating-point operations of a node by a formula from the sizes of its values, to compare parts of a
// model. Gives no number if a size or the operator's formula is not known.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "annotator/functions/value_shapes.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::view {

// The formulas in words, as reports print them beside the numbers.
inline constexpr std::string_view operation_formulas =
    "2 for each multiply-add of a product or convolution (MatMul: 2*elements of the result*inner size; Conv: "
    "2*elements of the result*channels in a group*kernel; both products of an Attention, those of an LSTM, GRU or "
    "RNN); 1 for each element of an elementwise function, however "
    "costly; 1 for each element read by a reduction and for each of a pool's windows; 5 an element of Softmax, 7 of a "
    "LayerNormalization and its kin, 2 of a BatchNormalization; 0 for what only moves, casts or indexes";

// Returns nullopt if the number is unknown, always for nodes that call functions or hold bodies.
std::optional<std::int64_t> count_operations(const onnx_file::OnnxNode& node, const functions::ValueShapes& shapes);

// True if only the sizes of its values keep the node, or one in its bodies, from being counted: its operator has a
// formula, and one that is not 0.
bool lacks_sizes(const onnx_file::OnnxNode& node, const functions::ValueShapes& shapes);

}  // namespace whence::view
