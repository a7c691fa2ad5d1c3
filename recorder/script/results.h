// Converts results of the model to the form that an ONNX file needs:
//
// A result that is None or a tensor, depending on data, is a flag and a content (term.h) inside the model, which every
// runtime accepts; the caller gets one ONNX optional for each tensor.
//
// A list that is empty in every run becomes an empty sequence.
//
// A tensor whose rank depends on data gets the example's rank with all sizes dynamic: ONNX's checker requires a shape
// for each result of a file. Runtimes accept other ranks.
#pragma once

#include "recorder/script/recording.h"
#include "schema/squeeze.h"

namespace whence::recorder::script {

// Returns the result with an optional value of the Program in place of each tensor that may be None. `type`: as forward
// declares it. Adds a warning about a rank that depends on data, and removes the result's warnings from `squeezed`.
Term converted_result(Recording& recording, const Term& term, const c10::TypePtr& type,
                      std::unordered_map<ValueId, std::vector<SettledSqueeze>>& squeezed);

}  // namespace whence::recorder::script
