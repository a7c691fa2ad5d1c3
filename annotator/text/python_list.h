// Parses Python's repr of a list of strings, "['', 'encoder.layer.0', \"it's\"]", the format of PyTorch's own metadata
// keys (torch/onnx/_internal/exporter/_core.py, _set_node_metadata).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whence::text {

// Returns nullopt if the text does not have this format.
std::optional<std::vector<std::string>> parse_python_list(std::string_view text);

}  // namespace whence::text
