// Seeds: the pairs that growth starts from, by inputs and outputs of the graph, kept names, known numbers, and evidence
// of names and weights.
#pragma once

#include <vector>

#include "annotator/match/correspondence.h"
#include "annotator/match/evidence.h"
#include "annotator/match/folded_arithmetic.h"
#include "annotator/match/known_values.h"
#include "annotator/match/likeness.h"
#include "annotator/match/proposals.h"
#include "annotator/match/same_names.h"
#include "annotator/match/value_links.h"

namespace whence::match {

class Seeds {
 public:
  // All arguments must outlive this object.
  Seeds(const Correspondence& pairs, const EvidenceTable& evidence, const Likeness& likeness,
        const FoldedArithmetic& folded, ValueLinks& links, Proposals& proposals)
      : f_(pairs.foreign()),
        reference_(pairs.reference()),
        r_(reference_.structure),
        pairs_(pairs),
        evidence_(evidence),
        likeness_(likeness),
        folded_(folded),
        links_(links),
        proposals_(proposals) {}

  void link_interface();
  void link_kept_values(const SameNames& same_names);
  // Links values with equal numbers.
  void link_known_values(const std::vector<KnownValue>& values);
  void propose_by_evidence();
  // Proposes pairs by sketches of weights, at the second call by their sizes, for nodes without a partner. Returns true
  // if there are new ones. A tool that changes a weight also changes the nodes around it. Growth from better seeds
  // finds the form of the reference that has these nodes; a sketch fits every form equally.
  bool propose_by_changed_weights();

 private:
  void link_by_name_or_position(const std::vector<ForeignValue>& f_values, const std::vector<ReferenceValue>& r_values);
  bool may_be_same(ForeignValue fv, ReferenceValue rv) const;
  bool are_alike(ForeignNode f, ReferenceNode r) const;
  bool reads_weights_of(ForeignNode f, ReferenceNode r) const;
  bool propose_by_rule(MatchRule rule);

  const ForeignStructure& f_;
  const Reference& reference_;
  const ReferenceStructure& r_;
  const Correspondence& pairs_;
  const EvidenceTable& evidence_;
  const Likeness& likeness_;
  const FoldedArithmetic& folded_;
  ValueLinks& links_;
  Proposals& proposals_;
  bool sketches_proposed_ = false, shapes_proposed_ = false;
};

}  // namespace whence::match
