// CheckedNames: the modules that names of nodes state, without those that contradict the weights: names of another
// vocabulary, and further names of a shared module.
#pragma once

#include "annotator/match/evidence.h"
#include "annotator/match/placement.h"
#include "annotator/match/tensor_owners.h"

namespace whence::match {

class CheckedNames {
 public:
  // `placement` has the readers of weights, and nothing else. `evidence` outlives the object.
  CheckedNames(const Placement& placement, const TensorOwners& owners, const EvidenceTable& evidence);

  // Returns the strongest name of a node, the last one of equals; null if there is none, or if it is misleading.
  const Evidence* name_of(ForeignNode node) const;

 private:
  const Evidence* strongest_name(ForeignNode node) const;

  const EvidenceTable& evidence_;
  IndexedVector<ScopeIndex, bool> is_misleading_;  // modules in names of nodes that weights place elsewhere
};

}  // namespace whence::match
