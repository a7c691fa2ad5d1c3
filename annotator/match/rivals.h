// Rivals: the proposed pairs by node, and comparisons of a pair with the pairs that share a node with it.
#pragma once

#include <vector>

#include "annotator/match/correspondence.h"
#include "annotator/match/pair_score.h"

namespace whence::match {

class Rivals {
 public:
  // Both arguments must outlive this object.
  Rivals(const Correspondence& pairs, const PairScore& score);

  // Stores a proposed pair. Returns false if one of the nodes has too many pairs already.
  bool add(ForeignNode f, ReferenceNode r);
  const std::vector<ReferenceNode>& of(ForeignNode f) const { return rivals_of_f_[f]; }
  const std::vector<ForeignNode>& of(ReferenceNode r) const { return rivals_of_r_[r]; }

  // Returns the highest score of a rival pair, at least 0.
  double best_rival(ForeignNode f, ReferenceNode r, Trust trust = Trust::all) const;
  // Returns true if every rival has a far lower score or less support; less likeness is not enough.
  bool leads_by_support(ForeignNode f, ReferenceNode r, Trust trust) const;
  // Returns true if a product with weights has a partner in another form of the reference: both forms are the same
  // operation, which is in the foreign file only once.
  bool other_form_taken(ReferenceNode r) const;

  // Calls `visit` with each rival pair: f with another reference node, or another foreign node with r. With
  // Trust::certain, a node whose partner came from a broken tie counts as free.
  template <class Visit>
  void each_rival(ForeignNode f, ReferenceNode r, Trust trust, const Visit& visit) const {
    const auto free = [&](ForeignNode node) {
      return !node.exists() || !pairs_.partner(node).exists() ||
             (trust == Trust::certain && !pairs_.is_certain_pair(node));
    };
    for (const ReferenceNode other : rivals_of_f_[f]) {
      // Another form of the same operation is not a rival.
      if (other != r && free(pairs_.partner(other)) && !reference_.same_units(other, r)) visit(f, other);
    }
    for (const ForeignNode other : rivals_of_r_[r]) {
      if (other != f && free(other)) visit(other, r);
    }
  }

 private:
  const Correspondence& pairs_;
  const Reference& reference_;
  const PairScore& score_;
  IndexedVector<ForeignNode, std::vector<ReferenceNode>> rivals_of_f_;
  IndexedVector<ReferenceNode, std::vector<ForeignNode>> rivals_of_r_;
};

}  // namespace whence::match
