// Counts the nodes of a model with its function calls inlined. Nested calls can make it far larger than the file, or
// endless.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "annotator/functions/model_parts.h"

namespace whence::functions {

inline constexpr std::uint64_t max_inlined_nodes = 20'000'000;

// Returns the number of nodes in the file, including nodes of bodies and functions.
std::uint64_t stored_nodes(const ModelParts& parts);

// Returns the number of nodes of the graph with calls of the functions that `is_selected` accepts inlined, at most
// max_inlined_nodes + 1; nullopt if such a function calls itself. A call of a function without nodes counts as one.
std::optional<std::uint64_t> inlined_size(const ModelParts& parts,
                                          const std::function<bool(const onnx_file::OnnxFunction&)>& is_selected);

}  // namespace whence::functions
