// Calls of local functions written out: what whence::outline cut out, as it was.
#pragma once

#include <functional>
#include <vector>

#include "annotator/functions/model_parts.h"
#include "annotator/functions/outline_file.h"

namespace whence::functions {

// inline_file for a model in memory.
InlineReport inline_calls(ModelParts& parts, bool all);

// Calls `visit` with each call of the outermost graph and the nodes of its function and of those that it calls, with
// what the functions say of them; inline_calls adds what the call says.
void for_each_call(ModelParts& parts,
                   const std::function<void(const onnx_file::OnnxNode&, const std::vector<onnx::NodeProto>&)>& visit);

}  // namespace whence::functions
