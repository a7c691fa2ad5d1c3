// What the model returns, where ONNX has another form for it.
//
// None or a tensor as the data has it: inside the model that is a flag and a content (term.h), which every runtime
// takes; a caller gets one ONNX optional for each tensor.
//
// A list that is empty in every run: an empty sequence.
//
// A tensor whose rank depends on data: ONNX's checker wants a shape for each result of a file, so it gets that of the
// example, all sizes open. Runtimes take other ranks.
#pragma once

#include "recorder/script/recording.h"

namespace whence::recorder {

// The result with a value of the Program wherever a tensor may be None. `type` is what forward declares. Warnings on
// results of `squeezed` that are stated here otherwise are taken out of it.
Term returned(Recording& recording, const Term& term, const c10::TypePtr& type,
              std::unordered_map<ValueId, Diagnostics>& squeezed);

}  // namespace whence::recorder
