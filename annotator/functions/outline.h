// Cuts functions out of a model: chooses modules, finds their regions, groups equal blocks, replaces each with a call.
#pragma once

#include "annotator/functions/model_parts.h"
#include "annotator/functions/outline_file.h"

namespace whence::functions {

// Cuts functions out of `parts`. The caller must check the result with graph_digest, as outline_file does.
FunctionsReport outline(ModelParts& parts, const FunctionChoice& options);

}  // namespace whence::functions
