// Cuts functions out of a model: choose modules, find their regions, group equal blocks, replace each by a call.
#pragma once

#include "annotator/functions/functions.h"
#include "annotator/functions/model_parts.h"

namespace whence {

// Cuts functions out of `parts`. Whoever calls this checks the result with graph_digest, as outline_file does.
OutlineReport outline(ModelParts& parts, const OutlineOptions& options);

}  // namespace whence
