// Finds nodes that a tool changed without updating their metadata: a Conv that absorbed the following Relu still states
// that it is only the Conv. The entries of such a node are outdated.
#pragma once

#include <vector>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::annotation {

// Returns true for each changed node of `nodes`. A node is changed if it has the name and origin of a node before, or
// else its first result and origin, but another operator, another first result or other input values. Values are
// followed through nodes without an origin, which the tool inserted. Other weights are no change, so that a quantised
// node counts as unchanged. A node that a tool inlined from a function of whence is changed too.
std::vector<bool> changed_nodes(const std::vector<const onnx_file::OnnxNode*>& nodes,
                                const std::vector<const onnx_file::OnnxNode*>& before);

}  // namespace whence::annotation
