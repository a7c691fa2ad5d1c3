// Operators that no tool inserts for another one: functions, selections, control flow. A node with one of them must
// correspond to an operation for which the program uses it.
#pragma once

#include "annotator/match/evidence.h"
#include "annotator/match/reference.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::derivation {

// Returns false if the node's operator is distinctive, and none of the operations that it was matched to uses it or an
// operator that consists of it. True for other operators.
bool fits_operations(const onnx_file::OnnxNode& node, const match::NodeMatch& found, const match::Reference& reference);

}  // namespace whence::derivation
