// FoldedNorms: convolutions that took in the norm after them, if only a checkpoint is known of the model. Such a
// convolution has other numbers than its module, and the file has no parameter of the norm.
#pragma once

#include <map>
#include <string_view>

#include "annotator/match/placement.h"
#include "annotator/match/tensor_owners.h"

namespace whence::match {

class FoldedNorms {
 public:
  // Both arguments outlive it.
  FoldedNorms(const Placement& placement, const TensorOwners& owners) : placement_(placement), owners_(owners) {}

  // Looks for the norm that a convolution of the module `own` took in, and stores the pair.
  void find_norm(ForeignNode convolution, UnitIndex own);
  // Returns the norm that a convolution's module took in, or the convolution that took in a norm; none for other units.
  UnitIndex partner(UnitIndex unit) const {
    const auto found = pairs_.find(unit);
    return found == pairs_.end() ? UnitIndex() : found->second;
  }

 private:
  bool has_changed_bias(ForeignNode node, UnitIndex own) const;
  UnitIndex nearest_norm(UnitIndex own) const;
  bool is_lost_norm(UnitIndex unit, UnitIndex convolution) const;

  const Placement& placement_;
  const TensorOwners& owners_;
  std::map<UnitIndex, UnitIndex> pairs_;
};

}  // namespace whence::match
