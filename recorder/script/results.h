// Converts results of the model to the form that an ONNX file needs:
//
// A result that is None or a tensor, depending on data, is a flag and a content (term.h) inside the model, which every
// runtime accepts; the caller gets one ONNX optional for each tensor.
//
// A list that is empty in every run becomes an empty sequence.
//
// A tensor whose rank depends on data gets the shape of the example with all sizes open, since ONNX's checker requires
// a shape for each result of a file. Runtimes accept other ranks.
#pragma once

#include "recorder/script/recording.h"
#include "schema/squeeze.h"

namespace whence::recorder::script {

// Returns the result with a value of the Program wherever a tensor may be None. `type`: as forward declares it.
// Warnings in `squeezed` about results for which it adds a warning of its own are removed.
Term returned(Recording& recording, const Term& term, const c10::TypePtr& type,
              std::unordered_map<ValueId, std::vector<SettledSqueeze>>& squeezed);

}  // namespace whence::recorder::script
