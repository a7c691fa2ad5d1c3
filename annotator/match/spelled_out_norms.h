// SpelledOutNorms: norms that are written as several nodes. Their arithmetic comes before the scale, back to the
// operand of the mean, and only the norm reads it.
#pragma once

#include <vector>

#include "annotator/match/nearest_modules.h"
#include "annotator/match/placement.h"

namespace whence::match {

class SpelledOutNorms {
 public:
  // Both arguments must outlive this object.
  SpelledOutNorms(Placement& placement, const NearestModules& nearest)
      : placement_(placement), f_(placement.foreign), nearest_(nearest) {}

  // Places the nodes of a norm in the module of its scale.
  void place_before(ForeignNode scale);

 private:
  std::vector<ForeignNode> nodes_before(ForeignNode scale) const;
  void drop_nodes_read_elsewhere(std::vector<ForeignNode>& nodes) const;
  void drop_operand(std::vector<ForeignNode>& nodes) const;
  std::vector<ForeignNode> operand_of(const std::vector<ForeignNode>& nodes) const;
  std::vector<ForeignNode> without_reshape(std::vector<ForeignNode> nodes) const;
  std::vector<ForeignNode> nodes_computing(ForeignNode node, const std::vector<ForeignNode>& among,
                                           bool through_means) const;
  bool may_normalize(ForeignNode node) const;
  bool takes_mean(ForeignNode node) const;

  Placement& placement_;
  const ForeignStructure& f_;
  const NearestModules& nearest_;
};

}  // namespace whence::match
