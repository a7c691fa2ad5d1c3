// PairLinks: links the values that two corresponding nodes read and compute, also if the nodes read them in other
// positions or one node combines values first.
#pragma once

#include <vector>

#include "annotator/match/correspondence.h"
#include "annotator/match/likeness.h"
#include "annotator/match/value_links.h"

namespace whence::match {

class PairLinks {
 public:
  // All arguments must outlive this object.
  PairLinks(const Correspondence& pairs, const Likeness& likeness, ValueLinks& links)
      : pairs_(pairs),
        f_(pairs.foreign()),
        reference_(pairs.reference()),
        r_(reference_.structure),
        likeness_(likeness),
        links_(links) {}

  // Links with the certainty of the pair.
  void link_neighbours(ForeignNode f, ReferenceNode r);

 private:
  void link_inputs(ForeignNode f, ReferenceNode r);
  void link_commutative_inputs(const std::vector<ForeignValue>& f_inputs, const std::vector<ReferenceValue>& r_inputs);
  void link_inputs_of_other_forms(ForeignNode f, ReferenceNode r);
  void link_operand_of_sum(ForeignValue fv, ReferenceValue sum);
  void link_combined_inputs(const std::vector<ForeignValue>& f_inputs, const std::vector<ReferenceValue>& r_inputs);
  std::vector<ReferenceValue> combined_values(const std::vector<ReferenceValue>& inputs) const;
  void link_outputs(ForeignNode f, ReferenceNode r);

  const Correspondence& pairs_;
  const ForeignStructure& f_;
  const Reference& reference_;
  const ReferenceStructure& r_;
  const Likeness& likeness_;
  ValueLinks& links_;
};

}  // namespace whence::match
