// Lists whose length depends on data: a data-dependent loop or branch appends to them, so the evaluator cannot hold
// their elements. Such a list is one value of the Program, a sequence. An operation that changes it is recorded as one
// that returns the changed list (aten::append with a result), which then replaces the list under all its names.
#pragma once

#include "recorder/script/recording.h"

namespace whence::recorder::script {

// Returns the list as one value; `sink` receives the node that builds it. `dtype`: the dtype of later elements, for an
// empty list. Throws Error unsupported_feature if ONNX has no sequence of these elements.
Term sequence_of(Recording& recording, const Term& list, const c10::TypePtr& type, DType dtype, std::vector<Node>& sink,
                 const Origin& origin);

// Returns the dtype of the list's elements; undefined if the list does not show it.
DType element_dtype_of(const Recording& recording, const Term& list);

// Carries out a node on a list whose length depends on data, or on a list that must become one. Returns false if the
// node is an operator on the complete list, or if the evaluator still holds the list's elements.
bool carry_out_on_sequence(Recording& recording, const Step& step);

}  // namespace whence::recorder::script
