// Likeness: the similarity of two nodes, by themselves and by the operators around them. It does not depend on the
// pairs found so far. Likeness chooses between pairs with support; it never supports a pair (pair_score.h).
#pragma once

#include "annotator/match/evidence.h"
#include "annotator/match/reference.h"
#include "annotator/match/structure.h"

namespace whence::match {

class Likeness {
 public:
  // All arguments must outlive this object.
  Likeness(const ForeignStructure& foreign, const Reference& reference, const EvidenceTable& evidence)
      : f_(foreign), reference_(reference), r_(reference.structure), evidence_(evidence) {}

  double of(ForeignNode f, ReferenceNode r) const;

  // Returns true if operators of the same class compute both values, or if no operator computes either.
  bool are_produced_alike(ForeignValue fv, ReferenceValue rv) const;
  // Returns the share, 0 to 1, of the foreign value's readers that do the same as some reader of the reference value.
  double common_reader_share(ForeignValue fv, ReferenceValue rv) const;
  // Compares numbers and sizes of constant inputs; negative if most of them differ.
  double constant_likeness(ForeignNode f, ReferenceNode r) const;
  // Returns true for convolutions with kernels of different sizes.
  bool kernels_differ(ForeignNode f, ReferenceNode r) const;

 private:
  bool has_fx_name_of(ForeignNode f, ReferenceNode r) const;
  bool does_the_same(ForeignNode f, ReferenceNode r) const;

  const ForeignStructure& f_;
  const Reference& reference_;
  const ReferenceStructure& r_;
  const EvidenceTable& evidence_;
};

}  // namespace whence::match
