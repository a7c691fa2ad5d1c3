// Reads single parts of a model from their messages, for callers that rewrite parts or read them one at a time. Throws
// Error: truncated_file, corrupt_file, over_limit. Texts of a part are views into its message.
#pragma once

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::onnx_file {

// The maximal nesting of bodies, deeper than any exporter writes. Bounds the recursion on a hostile file.
inline constexpr int max_nesting = 64;

OnnxProperty read_property(std::string_view message, const Place& place);  // StringStringEntryProto
OnnxTensor read_tensor(std::string_view message, const Place& place);
OnnxValue read_value(std::string_view message, const Place& place);  // ValueInfoProto
OnnxNode read_node(std::string_view message, const Place& place);
OnnxFunction read_function(std::string_view message, const Place& place);

}  // namespace whence::onnx_file
