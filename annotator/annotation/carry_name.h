// `annotate --carry`: a node's name as a line of its doc_string (carried_token.h), which optimisers leave alone.
#pragma once

#include "annotator/onnx_file/onnx_rewrite.h"
#include "annotator/origin/confidence.h"

namespace whence::annotation {

// Adds the line to an edit; a node that has it from an earlier run keeps that. `confidence`: of the node's module.
void carry_name(const onnx_file::NodeView& node, origin::Confidence confidence, onnx_file::NodeEdit& edit);

// Takes the line away again, where it is the last of the doc_string.
void drop_token(const onnx_file::NodeView& node, onnx_file::NodeEdit& edit);

}  // namespace whence::annotation
