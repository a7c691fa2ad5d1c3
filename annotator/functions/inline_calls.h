// Inlines calls of local functions, which restores the nodes that outline() replaced.
#pragma once

#include <functional>
#include <vector>

#include "annotator/functions/call_text.h"
#include "annotator/functions/model_parts.h"
#include "annotator/functions/outline_file.h"

namespace whence::functions {

// Like inline_file, for a model in memory.
InlineReport inline_calls(ModelParts& parts, bool all);

// Calls `visit` with each call of the outermost graph and the nodes that it expands to, nested calls included; nodes of
// bodies follow the node that has the body. The nodes have the functions' metadata; only inline_calls adds the metadata
// that is stored on the call.
void for_each_call(const ModelParts& parts,
                   const std::function<void(const onnx_file::OnnxNode&, const std::vector<FunctionNode>&)>& visit);

}  // namespace whence::functions
