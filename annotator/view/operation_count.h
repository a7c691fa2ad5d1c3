// Estimates the floating-point operations of a node by a formula over the sizes of its values, to compare parts of a
// model. Returns no number if a size or the operator's formula is unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "annotator/functions/value_shapes.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::view {

// The formulas in words, printed by reports with the numbers.
inline constexpr std::string_view operation_formulas =
    "2 for each multiply-add of a product or convolution (MatMul: 2*elements of the result*inner size; Conv: "
    "2*elements of the result*channels in a group*kernel; both products of an Attention, those of an LSTM, GRU or "
    "RNN); 1 for each element of any elementwise function; 1 for each element that a reduction or a pool's window "
    "reads; 5 for each element of Softmax, 7 of LayerNormalization and other layer norms, 2 of BatchNormalization; "
    "0 for operators that only move, cast or index";

// Returns nullopt if the number is unknown, and always for nodes that call functions or have bodies.
std::optional<std::int64_t> count_operations(const onnx_file::OnnxNode& node, const functions::ValueShapes& shapes);

// Returns true if the node, or a node in its bodies, has a formula other than 0 but is not counted because sizes are
// unknown.
bool lacks_sizes(const onnx_file::OnnxNode& node, const functions::ValueShapes& shapes);

}  // namespace whence::view
