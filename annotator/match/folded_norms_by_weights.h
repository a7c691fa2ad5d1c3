// FoldedNorms: convolutions that took in the norm behind them, where a checkpoint is all that is known of the model.
// Such a convolution has other numbers than its module's, and nothing of the norm is left in the file.
#pragma once

#include <map>
#include <string_view>

#include "annotator/match/placement.h"
#include "annotator/match/weights_held.h"

namespace whence::match {

class FoldedNorms {
 public:
  // Both outlive it.
  FoldedNorms(const Placement& placement, const WeightsHeld& held) : placement_(placement), held_(held) {}

  // Looks for the norm that a convolution, of the module `own`, took in, and keeps both as each other's.
  void look_at(ForeignNode convolution, UnitIndex own);
  // The norm of a convolution's module that took it in, or the other way round; none for others.
  UnitIndex other(UnitIndex unit) const {
    const auto found = pairs_.find(unit);
    return found == pairs_.end() ? UnitIndex() : found->second;
  }

 private:
  bool has_changed_bias(ForeignNode node, UnitIndex own) const;
  UnitIndex norm_beside(UnitIndex own) const;
  bool is_lost_norm(UnitIndex unit, UnitIndex convolution) const;

  const Placement& placement_;
  const WeightsHeld& held_;
  std::map<UnitIndex, UnitIndex> pairs_;
};

}  // namespace whence::match
