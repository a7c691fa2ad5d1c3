// NodesBetweenWeights: places the nodes that read no parameters, when the model is known only from a checkpoint. A node
// between two readers belongs to the innermost module that encloses both, or to a module inside; if there is none
// inside, to this module.
#pragma once

#include "annotator/match/checked_names.h"
#include "annotator/match/folded_norms_by_weights.h"
#include "annotator/match/nearest_modules.h"
#include "annotator/match/placement.h"
#include "annotator/match/tensor_owners.h"

namespace whence::match {

class NodesBetweenWeights {
 public:
  // All arguments must outlive this object.
  NodesBetweenWeights(Placement& placement, const TensorOwners& owners, const FoldedNorms& norms,
                      const CheckedNames& names, const NearestModules& nearest)
      : placement_(placement),
        f_(placement.foreign),
        scopes_(placement.reference.scopes),
        owners_(owners),
        norms_(norms),
        names_(names),
        nearest_(nearest) {}

  void place_computing(ForeignNode node);
  void place_constant(ForeignNode node);  // after its readers

 private:
  bool place_by_name(ForeignNode node, ScopeIndex enclosing);

  Placement& placement_;
  const ForeignStructure& f_;
  const origin::CallTree& scopes_;
  const TensorOwners& owners_;
  const FoldedNorms& norms_;
  const CheckedNames& names_;
  const NearestModules& nearest_;
};

}  // namespace whence::match
