// A quantised weight that is transposed before. No number's integer depends on its neighbours, so the weight may as
// well be quantised as the checkpoint stores it, and its integers transposed, which have a quarter of its bytes.
#pragma once

#include "annotator/derivation/expression.h"
#include "annotator/derivation/scheme.h"

namespace whence::derivation {

struct Untransposed {
  const Expression* weight = nullptr;
  Groups groups;                             // of `weight`
  const TransposeStep* transpose = nullptr;  // of the integers; null if the weight is not transposed
};

// Returns the weight without the transpose that its integers may get instead. Blocks and packed integers get none.
// Throws Error(corrupt_file) for a transpose of other axes than the weight has.
Untransposed untransposed(const Expression& weight, Layout layout, const Groups& groups);

}  // namespace whence::derivation
