// Bridges: proposes pairs of similar nodes beyond a part that the two sides express with different operators, starting
// from values that correspond.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "annotator/match/correspondence.h"
#include "annotator/match/pair_score.h"
#include "annotator/match/proposals.h"

namespace whence::match {

enum class SearchDirection : std::uint8_t { makers, readers };

class Bridges {
 public:
  // All arguments must outlive this object.
  Bridges(const Correspondence& pairs, const PairScore& score, Proposals& proposals)
      : pairs_(pairs),
        f_(pairs.foreign()),
        reference_(pairs.reference()),
        r_(reference_.structure),
        score_(score),
        proposals_(proposals) {}

  // Looks past nodes without a partner for operators with exactly one nearest node on each side: from values that
  // correspond in both directions, and backwards from operands that do not correspond although their nodes do. Proposes
  // these pairs; returns true if there are new ones.
  bool propose();

 private:
  void propose_from(ForeignValue fv, ReferenceValue rv, SearchDirection direction);
  std::vector<std::pair<ForeignValue, ReferenceValue>> open_operands(ForeignNode f, ReferenceNode r) const;
  bool order_open_operands(const std::vector<ForeignValue>& f_open, std::vector<ReferenceValue>& r_open) const;
  double common_operator_share(ForeignValue fv, ReferenceValue rv) const;

  const Correspondence& pairs_;
  const ForeignStructure& f_;
  const Reference& reference_;
  const ReferenceStructure& r_;
  const PairScore& score_;
  Proposals& proposals_;
};

}  // namespace whence::match
