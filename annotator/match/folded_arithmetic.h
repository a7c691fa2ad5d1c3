// FoldedArithmetic: arithmetic that follows a product in the reference and that the foreign product absorbed. The
// foreign result then corresponds to the value after the arithmetic.
#pragma once

#include "annotator/match/correspondence.h"

namespace whence::match {

class FoldedArithmetic {
 public:
  // `pairs` must outlive this object.
  explicit FoldedArithmetic(const Correspondence& pairs)
      : pairs_(pairs), f_(pairs.foreign()), reference_(pairs.reference()), r_(reference_.structure) {}

  // Returns the value after the scalings that directly follow the product `rv` in the reference, each an operation of
  // its own, that the foreign product must have absorbed because its readers do not scale. Returns `rv` if there are
  // none.
  ReferenceValue after_scalings(ForeignValue fv, ReferenceValue rv) const;
  // Returns the value after the arithmetic with weights that follows the product `rv` in the reference and does not
  // follow `fv`: the foreign product must have absorbed it, because its readers are plain operators, which cannot.
  // Returns `rv` if there is none.
  ReferenceValue after_weighted(ForeignValue fv, ReferenceValue rv) const;
  // Returns true for the result of a node that tools fold into the product before it: an activation, or arithmetic by
  // channel.
  bool is_absorbed_by_product(ReferenceValue value) const;

 private:
  bool reads_unscaled(const StructureUse<Side::foreign>& use) const;
  bool may_have_scaled(ForeignValue fv) const;
  bool may_have_absorbed_weights(ForeignValue fv) const;
  bool is_own_scaling(ReferenceNode r) const;
  ReferenceValue open_result(ReferenceNode r) const;

  const Correspondence& pairs_;
  const ForeignStructure& f_;
  const Reference& reference_;
  const ReferenceStructure& r_;
};

}  // namespace whence::match
