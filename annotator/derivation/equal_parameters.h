// Parameters with equal bytes: a tensor of a file may hold any of them, because exporters store equal tensors once.
#pragma once

#include "annotator/derivation/content_index.h"
#include "annotator/derivation/expression.h"
#include "annotator/derivation/weights.h"

namespace whence::derivation {

// Lists the parameters of the checkpoint that equal the step's, and whether names distinguish it from them.
// For a computed value, adds the readers of those that are equal.
void list_equals(ParameterStep& step, const Weights& weights, const NameFit& fit);

}  // namespace whence::derivation
