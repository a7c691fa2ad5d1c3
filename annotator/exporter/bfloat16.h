// Operators of bfloat16 between casts, for runtimes that have no kernels of it: ONNX Runtime on the CPU among them.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "annotator/graph/graph.h"

namespace whence::exporter {

// Operators that run in bfloat16 everywhere: each moves elements, or ONNX Runtime has a kernel for the CPU at each
// opset that whence writes. Control flow and sequences, which take every type, are not in it. Ascending.
inline constexpr std::array<std::string_view, 18> runs_in_bfloat16 = {
    "Cast",     "CastLike",        "Concat",
    "Flatten",  "Gather",          "GatherElements",
    "GatherND", "Identity",        "LayerNormalization",
    "Reshape",  "ScatterElements", "ScatterND",
    "Shape",    "Slice",           "Split",
    "Squeeze",  "Transpose",       "Unsqueeze"};

// Lets each other operator of ONNX that takes or gives bfloat16 compute in float32, and its results be rounded to
// bfloat16, as PyTorch's kernels round them. Weights stay as they are; the casts have the origin of the nodes that they
// serve. Bodies included. Returns how many operators it changed.
std::size_t widen_bfloat16(graph::Graph& graph);

}  // namespace whence::exporter
