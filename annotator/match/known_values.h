// Values of the foreign file that are, by their numbers, results of recorded operations.
#pragma once

#include <vector>

#include "annotator/match/reference.h"
#include "annotator/match/structure.h"

namespace whence::match {

struct KnownValue {
  ForeignValue foreign;
  UnitIndex unit;            // the operation whose result it is
  ReferenceValue reference;  // none where no form of the reference has it
};

// The pairs of `reference.equal_values` that say one thing. Left out are those of a value that is the result of several
// operations, and of a result that several values of the file are, unless the others are computed from the first: then
// what computes them does nothing to it, as an activation of numbers that are positive already.
std::vector<KnownValue> known_values(const ForeignStructure& foreign, const Reference& reference);

}  // namespace whence::match
