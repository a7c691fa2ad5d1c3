// Calls of local functions written out: what whence::outline cut out, as it was.
#pragma once

#include <vector>

#include "annotator/functions/model_parts.h"
#include "annotator/functions/outline_file.h"

namespace whence::functions {

// inline_file for a model in memory.
InlineReport inline_calls(ModelParts& parts, bool all);

// For each call in the outermost graph, in order, the nodes of its function and of those that it calls, with what the
// functions say of them; inline_calls adds what the call says.
std::vector<std::vector<onnx::NodeProto>> nodes_by_call(const ModelParts& parts);

}  // namespace whence::functions
