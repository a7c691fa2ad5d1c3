// Attributes of ONNX nodes as text, for viewers: numbers and strings in full, tensors and graphs only by kind.
#pragma once

#include <string>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::view {

// Returns "[3, 3]", "0.5", "reflect", "tensor", "graph", or "@name" for an attribute of the enclosing function.
// Truncates long lists and strings. Throws Error(corrupt_file, truncated_file) for bytes that are not an attribute;
// `place` names the file.
std::string attribute_text(const onnx_file::OnnxAttribute& attribute, const Place& place);
// Returns the text without truncation, for comparisons.
std::string whole_attribute_text(const onnx_file::OnnxAttribute& attribute, const Place& place);

}  // namespace whence::view
