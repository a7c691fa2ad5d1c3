// How large a model's calls of functions are when they are written out: functions that call each other can be far more
// than their file, or without end.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "annotator/functions/model_parts.h"

namespace whence::functions {

inline constexpr std::uint64_t most_written_nodes = 20'000'000;

// Nodes of the graph when the calls of those functions that `chosen` accepts are written out, at the most
// most_written_nodes + 1; none when such a function calls itself.
std::optional<std::uint64_t> written_size(const ModelParts& parts,
                                          const std::function<bool(const onnx_file::OnnxFunction&)>& chosen);

}  // namespace whence::functions
