// FoldedNorms: convolutions that absorbed the norm after them, when the model is known only from a checkpoint. Such a
// convolution's weights differ from those of its module, and the file has no parameter of the norm.
#pragma once

#include <map>
#include <string_view>

#include "annotator/match/placement.h"
#include "annotator/match/tensor_owners.h"

namespace whence::match {

class FoldedNorms {
 public:
  // Both arguments must outlive this object.
  FoldedNorms(const Placement& placement, const TensorOwners& owners) : placement_(placement), owners_(owners) {}

  // Looks for the norm that a convolution of the module `own` absorbed, and stores the pair.
  void find_norm(ForeignNode convolution, UnitIndex own);
  // For a convolution, returns the norm that it absorbed; for a norm, the convolution that absorbed it; else none.
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
