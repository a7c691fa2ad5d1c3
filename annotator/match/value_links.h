// ValueLinks: pairs values, and proposes the nodes that compute and read them. If one side computes something more at
// that point, steps over it.
#pragma once

#include "annotator/match/correspondence.h"
#include "annotator/match/folded_arithmetic.h"
#include "annotator/match/likeness.h"
#include "annotator/match/proposals.h"

namespace whence::match {

class ValueLinks {
 public:
  // All arguments must outlive this object.
  ValueLinks(Correspondence& pairs, const Likeness& likeness, const FoldedArithmetic& folded, Proposals& proposals)
      : pairs_(pairs),
        f_(pairs.foreign()),
        r_(pairs.reference().structure),
        likeness_(likeness),
        folded_(folded),
        proposals_(proposals) {}

  // Sets the certainty of the values that are linked from now on; certain at first.
  void set_certainty(bool certain, ScopeIndex tie_scope);

  // Pairs two values. Does nothing if one is constant or does not exist.
  void link(ForeignValue fv, ReferenceValue rv);
  // Links values in the same slot of two nodes that correspond.
  void link_operand(ForeignValue fv, ReferenceValue rv);
  // Links results in the same slot of two nodes that correspond.
  void link_result(ForeignValue fv, ReferenceValue rv);

 private:
  void propose_readers(ForeignValue fv, ReferenceValue rv);
  void propose_makers(ForeignValue fv, ReferenceValue rv, Distance distance);
  void propose_distant_readers(ForeignValue fv, ReferenceValue rv);

  Correspondence& pairs_;
  const ForeignStructure& f_;
  const ReferenceStructure& r_;
  const Likeness& likeness_;
  const FoldedArithmetic& folded_;
  Proposals& proposals_;
  bool certain_ = true;
  ScopeIndex tie_scope_;
};

}  // namespace whence::match
