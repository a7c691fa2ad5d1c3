// Puts casts around bfloat16 operators for runtimes without bfloat16 kernels, such as ONNX Runtime on the CPU.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "annotator/graph/graph.h"

namespace whence::exporter {

// Operators that run in bfloat16 everywhere: they only move elements, or ONNX Runtime has a CPU kernel at each opset
// that whence writes. Control flow and sequences, which take every type, are not listed. Sorted.
inline constexpr std::array<std::string_view, 18> runs_in_bfloat16 = {
    "Cast",     "CastLike",        "Concat",
    "Flatten",  "Gather",          "GatherElements",
    "GatherND", "Identity",        "LayerNormalization",
    "Reshape",  "ScatterElements", "ScatterND",
    "Shape",    "Slice",           "Split",
    "Squeeze",  "Transpose",       "Unsqueeze"};

// Makes every other ONNX operator with bfloat16 inputs or outputs compute in float32 and round its results to bfloat16,
// as PyTorch's kernels do. Weights stay bfloat16; the casts have the origins of the nodes that need them. Includes
// bodies. Returns the number of changed operators.
std::size_t widen_bfloat16(graph::Graph& graph);

}  // namespace whence::exporter
