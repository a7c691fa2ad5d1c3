// The size of a model with its calls of functions written out. Functions that call each other can be far larger than
// their file, or endless.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "annotator/functions/model_parts.h"

namespace whence::functions {

inline constexpr std::uint64_t most_written_nodes = 20'000'000;

// The number of nodes in the file, those of bodies and functions included.
std::uint64_t stored_nodes(const ModelParts& parts);

// Returns the number of nodes of the graph with calls of the functions that `chosen` accepts written out, at the most
// most_written_nodes + 1; none when such a function calls itself. A call of a function without nodes counts as one.
std::optional<std::uint64_t> written_size(const ModelParts& parts,
                                          const std::function<bool(const onnx_file::OnnxFunction&)>& chosen);

}  // namespace whence::functions
