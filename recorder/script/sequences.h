// Lists whose length depends on data: a loop or branch on data appends to them, so the evaluator cannot hold their
// elements. Such a list is one value of the Program, a sequence. An operation that changes it is recorded as one that
// returns the changed list (aten::append with a result), which replaces the list for all its holders.
#pragma once

#include "recorder/script/recording.h"

namespace whence::recorder::script {

// The list as one value; `sink` gets the node that builds it. `dtype` is that of elements to come, for a list without
// any. Throws Error unsupported_feature for elements of which ONNX has no sequence.
Term sequence_of(Recording& recording, const Term& list, const c10::TypePtr& type, DType dtype, std::vector<Node>& sink,
                 const Origin& origin);

// The dtype of the elements, as far as the list itself says; else undefined.
DType element_dtype_of(const Recording& recording, const Term& list);

// Carries out a node that takes a list whose length depends on data, or that makes one of the list it takes. Returns
// false where the node is an operator on the complete list, or its list stays one that the evaluator holds.
bool carry_out_on_sequence(Recording& recording, const Step& step);

}  // namespace whence::recorder::script
