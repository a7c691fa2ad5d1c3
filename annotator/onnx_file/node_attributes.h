// Reads attributes of a node from the wire format.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::onnx_file {

// Returns the integer attribute, or `otherwise` if the node does not have it. Throws Error(corrupt_file).
std::int64_t integer_attribute(const OnnxNode& node, std::string_view name, std::int64_t otherwise);
// Returns the float or integer attribute; nullopt if the node does not have it. Throws Error(corrupt_file).
std::optional<double> number_attribute(const OnnxNode& node, std::string_view name);
// Returns the text attribute; "" if the node does not have it. Throws Error(corrupt_file).
std::string_view text_attribute(const OnnxNode& node, std::string_view name);

}  // namespace whence::onnx_file
