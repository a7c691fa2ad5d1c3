// JointProducts: foreign products that do the work of several products of the reference that read the same value:
// query, key and value in one MatMul. A Split takes the result apart; its parts correspond to the reference's results
// in the order of the weight's parts, or in execution order if that is unknown.
#pragma once

#include <vector>

#include "annotator/match/correspondence.h"
#include "annotator/match/evidence.h"
#include "annotator/match/tie_certainty.h"
#include "annotator/match/value_links.h"

namespace whence::match {

class JointProducts {
 public:
  // All arguments must outlive this object.
  JointProducts(Correspondence& pairs, const EvidenceTable& evidence, ValueLinks& links, TieCertainty& certainty)
      : pairs_(pairs),
        f_(pairs.foreign()),
        reference_(pairs.reference()),
        r_(reference_.structure),
        evidence_(evidence),
        links_(links),
        certainty_(certainty) {}

  // Links the results of all joint products whose input has a partner.
  void link();

 private:
  ForeignNode product_before(ForeignNode split) const;
  std::vector<UnitIndex> units_by_evidence(ForeignNode product, ReferenceValue input) const;
  std::vector<UnitIndex> units_by_execution(ForeignNode product, ReferenceValue input) const;
  void link_parts(ForeignNode split, ForeignNode product, const std::vector<UnitIndex>& units);

  Correspondence& pairs_;
  const ForeignStructure& f_;
  const Reference& reference_;
  const ReferenceStructure& r_;
  const EvidenceTable& evidence_;
  ValueLinks& links_;
  TieCertainty& certainty_;
};

}  // namespace whence::match
