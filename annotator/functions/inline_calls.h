// Writes out calls of local functions, and so restores the nodes that outline() cut out.
#pragma once

#include <functional>
#include <vector>

#include "annotator/functions/call_text.h"
#include "annotator/functions/model_parts.h"
#include "annotator/functions/outline_file.h"

namespace whence::functions {

// inline_file for a model in memory.
InlineReport inline_calls(ModelParts& parts, bool all);

// Calls `visit` with each call of the outermost graph and the nodes it stands for, through all functions that it calls,
// those of bodies behind the node that holds them. The nodes have the functions' metadata; only inline_calls adds what
// is kept at the call.
void for_each_call(const ModelParts& parts,
                   const std::function<void(const onnx_file::OnnxNode&, const std::vector<FunctionNode>&)>& visit);

}  // namespace whence::functions
