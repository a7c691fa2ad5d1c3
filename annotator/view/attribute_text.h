// Attributes of ONNX nodes as text, for viewers: numbers and texts as they are, of tensors and graphs what they are.
#pragma once

#include <string>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::view {

// "[3, 3]", "0.5", "reflect", "tensor", "graph", or "@name" for one that the enclosing function gives; long lists and
// texts are cut. Throws Error(corrupt_file, truncated_file) for bytes that are not an attribute; `place` names the
// file.
std::string attribute_text(const onnx_file::OnnxAttribute& attribute, const Place& place);
// The same with nothing cut, to compare.
std::string whole_attribute_text(const onnx_file::OnnxAttribute& attribute, const Place& place);

}  // namespace whence::view
