// PairScore: the score of a pair of nodes, by which pairs compete. It is the sum of the pair's support (evidence, and
// neighbours that correspond) and its likeness. One agreeing neighbour is 1.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "annotator/match/correspondence.h"
#include "annotator/match/evidence.h"
#include "annotator/match/likeness.h"

namespace whence::match {

enum class Trust : std::uint8_t { all, certain };  // which pairs of values count

class PairScore {
 public:
  // All arguments must outlive this object.
  PairScore(const Correspondence& pairs, const Likeness& likeness, const EvidenceTable& evidence)
      : pairs_(pairs),
        f_(pairs.foreign()),
        reference_(pairs.reference()),
        r_(reference_.structure),
        likeness_(likeness),
        evidence_(evidence) {}

  double score(ForeignNode f, ReferenceNode r, Trust trust = Trust::all) const;
  // Returns the score without the likeness.
  double support(ForeignNode f, ReferenceNode r, Trust trust = Trust::all) const;

  // A bonus is support of a pair at a distance from values that correspond. It counts with Trust::all.
  double bonus(ForeignNode f, ReferenceNode r) const;
  void add_bonus(ForeignNode f, ReferenceNode r);

 private:
  double evidence_for(ForeignNode f, ReferenceNode r) const;
  bool reads_weights_of_others(ForeignNode f, ReferenceNode r) const;
  void add_input_support(ForeignNode f, ReferenceNode r, Trust trust, double& total) const;
  void add_output_support(ForeignNode f, ReferenceNode r, Trust trust, double& total) const;
  // Return the partner, or none if it does not count.
  ReferenceValue partner(ForeignValue fv, Trust trust) const;
  ForeignValue partner(ReferenceValue rv, Trust trust) const;

  const Correspondence& pairs_;
  const ForeignStructure& f_;
  const Reference& reference_;
  const ReferenceStructure& r_;
  const Likeness& likeness_;
  const EvidenceTable& evidence_;
  std::unordered_map<std::uint64_t, double> bonus_;
};

}  // namespace whence::match
