// Compares the attributes of a node with those that its operations state in the program.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "annotator/comparison/operation_forms.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

// Returns true for a reduction that keeps its axes unlike that of a form, if later nodes make up for it.
using SameAxesAfter = std::function<bool(bool keeps, const OperationForms::FormNode& form)>;

// Compares with the nodes of the operations that have the same operator. `opset`: the file's. Returns what differs:
// "axis is 1, not -1 as in the program"; "" if nothing differs or there is no such node.
std::string attribute_difference(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations,
                                 const OperationForms& forms, int opset, const SameAxesAfter& same_axes);

}  // namespace whence::comparison
