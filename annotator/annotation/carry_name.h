// `annotate --carry`: stores a node's name as a line of its doc_string (carried_token.h), which optimisers keep.
#pragma once

#include "annotator/onnx_file/onnx_rewrite.h"
#include "annotator/origin/confidence.h"

namespace whence::annotation {

// Adds the line to an edit, unless the node has one from an earlier run. `confidence`: the confidence of the node's
// module.
void carry_name(const onnx_file::NodeView& node, origin::Confidence confidence, onnx_file::NodeEdit& edit);

// Removes the line if it is the last line of the doc_string.
void drop_token(const onnx_file::NodeView& node, onnx_file::NodeEdit& edit);

}  // namespace whence::annotation
