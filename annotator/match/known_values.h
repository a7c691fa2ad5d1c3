// Values of the foreign file that have the numbers of a recorded operation's result.
#pragma once

#include <vector>

#include "annotator/match/reference.h"
#include "annotator/match/structure.h"

namespace whence::match {

struct KnownValue {
  ForeignValue foreign;
  UnitIndex unit;            // the operation whose result it is
  ReferenceValue reference;  // none if no form of the reference has it
};

// Returns the unambiguous pairs of `reference.equal_values`. Leaves out values that equal the results of several
// operations, and results that several values of the file equal, unless the other values are computed from the first:
// then the nodes between do not change the numbers, like an activation of positive numbers.
std::vector<KnownValue> known_values(const ForeignStructure& foreign, const Reference& reference);

}  // namespace whence::match
