// WeightReaders: places the nodes that read parameters, when the model is known only from a checkpoint. A node that
// reads parameters of one module belongs to that module.
#pragma once

#include <vector>

#include "annotator/match/folded_norms_by_weights.h"
#include "annotator/match/placement.h"
#include "annotator/match/tensor_owners.h"

namespace whence::match {

class WeightReaders {
 public:
  // All arguments must outlive this object. Adds the norms that convolutions absorbed to `norms`.
  WeightReaders(Placement& placement, const TensorOwners& owners, FoldedNorms& norms);

  void place();

 private:
  void place_reader(ForeignNode node);
  void place_known(ForeignNode node, std::vector<UnitIndex> units, MatchRule rule, bool has_changed_weights);
  void keep_common_alternatives(ForeignNode node, const std::vector<std::vector<UnitIndex>>& alternatives);
  bool shares_table(ForeignNode node) const;
  bool is_of_another(ForeignNode node) const;
  bool may_be_shared_bias(ForeignNode node) const;
  void look_for_folded(ForeignNode node);
  void settle_alternatives(ForeignNode node);
  void join_folded(ForeignNode node);

  Placement& placement_;
  const ForeignStructure& f_;
  const origin::CallTree& scopes_;
  const TensorOwners& owners_;
  FoldedNorms& norms_;
  IndexedVector<ForeignNode, std::vector<UnitIndex>> alternatives_;
  IndexedVector<ForeignNode, bool> agreeing_;  // several tensors have these alternatives in common
};

}  // namespace whence::match
