// TieCertainty: decides which pairs are certain. The choice in a broken tie is a guess, and so is a pair that follows
// only from a guess, unless other support confirms it.
#pragma once

#include <vector>

#include "annotator/match/correspondence.h"
#include "annotator/match/pair_score.h"
#include "annotator/match/rivals.h"

namespace whence::match {

class TieCertainty {
 public:
  // All arguments must outlive this object.
  TieCertainty(Correspondence& pairs, const PairScore& score, const Rivals& rivals)
      : pairs_(pairs),
        f_(pairs.foreign()),
        reference_(pairs.reference()),
        r_(reference_.structure),
        score_(score),
        rivals_(rivals) {}

  void note_broken_tie() { tie_broken_ = true; }
  // Returns true if a pair that is accepted now is certain. Notes a broken tie if the pair does not lead by support.
  bool is_certain_now(ForeignNode f, ReferenceNode r);
  // Returns the scope around all rivals of the pair; none if they are all of one scope.
  ScopeIndex scope_of_tie(ForeignNode f, ReferenceNode r) const;
  // Returns the scope around the broken ties from which the pair's values follow; none if no tie is between several
  // scopes.
  ScopeIndex scope_of_earlier_ties(ForeignNode f, ReferenceNode r) const;

  // At the end of growth: confirms pairs from a broken tie that later pairs support independently, and marks guesses.
  void confirm();

 private:
  bool has_own_lead(ForeignNode f, ReferenceNode r) const;
  void confirm_values(ForeignNode f, ReferenceNode r);
  bool rivals_share_scope(ForeignNode f, ReferenceNode r) const;
  std::vector<ScopeIndex> scopes_of(ReferenceNode r) const;
  bool leaves_equal_rival(ForeignNode f, ReferenceNode r) const;
  bool may_be_guessed(ForeignNode f) const;
  void spread_guess(ForeignNode f);

  Correspondence& pairs_;
  const ForeignStructure& f_;
  const Reference& reference_;
  const ReferenceStructure& r_;
  const PairScore& score_;
  const Rivals& rivals_;
  bool tie_broken_ = false;
};

}  // namespace whence::match
