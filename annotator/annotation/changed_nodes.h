// Nodes that a tool changed and on which it left the metadata of the file before: a Conv that took in the Relu behind
// it still says that it is the Conv alone. What such a node says of itself is of the past.
#pragma once

#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::annotation {

// A body of whence's functions has this for the module of the call (functions/call_text.h). whence fills it in when it
// writes out a call; other tools copy it.
inline constexpr std::string_view place_of_module = "{module}";

// By node of `nodes`. A node is changed when it says, under its old name, what its like in the file before says, and is
// another operator by now, has another first result, or computes from other values. Values are followed through nodes
// that say nothing, which the tool put in. Weights may be others: quantising a node leaves it the same. Changed, too,
// is a node that a tool took out of a function of whence's.
std::vector<bool> changed_nodes(const std::vector<const onnx_file::OnnxNode*>& nodes,
                                const std::vector<const onnx_file::OnnxNode*>& before);

}  // namespace whence::annotation
