// Reads attributes of a node from the wire format.
#pragma once

#include <cstdint>
#include <string_view>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::onnx_file {

// Returns the integer attribute, or `otherwise` if the node does not have it. Throws Error(corrupt_file).
std::int64_t integer_attribute(const OnnxNode& node, std::string_view name, std::int64_t otherwise);
// Returns the text attribute; "" if the node does not have it. Throws Error(corrupt_file).
std::string_view text_attribute(const OnnxNode& node, std::string_view name);

}  // namespace whence::onnx_file
