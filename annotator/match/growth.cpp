#include "annotator/match/growth.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "annotator/match/bridges.h"
#include "annotator/match/folded_arithmetic.h"
#include "annotator/match/growth_limits.h"
#include "annotator/match/joint_products.h"
#include "annotator/match/likeness.h"
#include "annotator/match/pair_links.h"
#include "annotator/match/pair_score.h"
#include "annotator/match/proposals.h"
#include "annotator/match/rivals.h"
#include "annotator/match/seeds.h"
#include "annotator/match/tie_certainty.h"
#include "annotator/match/value_links.h"

namespace whence::match {
namespace {

constexpr int max_bridges = 64;  // rounds of looking past nodes without a partner; each round looks everywhere

class Growth {
 public:
  Growth(const ForeignStructure& foreign, const Reference& reference, const EvidenceTable& evidence)
      : f_(foreign),
        reference_(reference),
        pairs_(foreign, reference),
        likeness_(foreign, reference, evidence),
        score_(pairs_, likeness_, evidence),
        rivals_(pairs_, score_),
        proposals_(pairs_, likeness_, score_, rivals_),
        folded_(pairs_),
        value_links_(pairs_, likeness_, folded_, proposals_),
        pair_links_(pairs_, likeness_, value_links_),
        certainty_(pairs_, score_, rivals_),
        joint_products_(pairs_, evidence, value_links_, certainty_),
        seeds_(pairs_, evidence, likeness_, folded_, value_links_, proposals_),
        bridges_(pairs_, score_, proposals_) {}

  Correspondence grow(const std::vector<KnownValue>& values, const SameNames& same_names) {
    seeds_.link_interface();
    if (reference_.values_keep_names) seeds_.link_kept_values(same_names);
    seeds_.link_known_values(values);
    seeds_.propose_by_evidence();
    int bridge_rounds = 0;
    while (true) {
      joint_products_.link();
      accept_leading(clear_gap);
      joint_products_.link();
      accept_leading(small_gap);
      if (!proposals_.empty()) continue;
      if (bridge_rounds++ < max_bridges && bridges_.propose()) continue;
      if (seeds_.propose_by_changed_weights()) continue;
      if (break_ties()) continue;
      break;
    }
    certainty_.confirm();
    return std::move(pairs_);
  }

 private:
  // Accepts the pairs that have support and lead their rivals by `gap`, the best first. Pairs without the lead wait.
  void accept_leading(double gap) {
    proposals_.resume_waiting();
    while (!proposals_.empty()) {
      Proposal best = proposals_.take_best();
      if (!may_be_accepted(best)) continue;
      const double score = score_.score(best.foreign, best.reference);
      const bool is_lower = score < best.score - 1e-9;  // because of pairs accepted since then
      best.score = score;
      if (is_lower) {
        proposals_.put_back(best);
      } else if (score_.support(best.foreign, best.reference) < needed_support) {
        continue;
      } else if (score - rivals_.best_rival(best.foreign, best.reference) < gap) {
        proposals_.postpone(best);
      } else {
        accept(best, certainty_.is_certain_now(best.foreign, best.reference), {});
      }
    }
  }

  // Breaks ties between twins, equal in everything else, by the order of execution on both sides. One round accepts
  // only pairs that are far from each other: each accepted pair may distinguish its neighbours. If there are twins
  // within one module, only their ties are broken: every choice has the right module, and the pairs that follow may
  // distinguish twins of several modules. Of twins of several modules only the first tie is broken: in any order in
  // which a file lists a module's nodes, the nodes of the modules that it feeds come later.
  bool break_ties() {
    constexpr std::int32_t min_distance = 64;
    certainty_.note_broken_tie();
    std::vector<Proposal> ties = find_ties();
    const bool within_modules = keep_ties_within_modules(ties);
    sort_by_execution(ties);
    std::unordered_set<ReferenceNode> rivals;  // in ties between modules that this round broke
    std::int32_t last = -min_distance;
    bool any = false;
    for (const Proposal& tie : ties) {
      if (position_f_[tie.foreign] - last < min_distance) continue;
      if (!may_be_accepted(tie) || rivals.contains(tie.reference)) continue;
      if (!within_modules) rivals.insert(rivals_.of(tie.foreign).begin(), rivals_.of(tie.foreign).end());
      last = position_f_[tie.foreign];
      accept(tie, false, certainty_.scope_of_tie(tie.foreign, tie.reference));
      any = true;
    }
    return any;
  }

  // Returns the waiting pairs that have no better rival, and updates the scores of all of them.
  std::vector<Proposal> find_ties() {
    std::vector<Proposal> ties;
    for (Proposal& waiting : proposals_.waiting()) {
      if (!proposals_.is_open(waiting.foreign, waiting.reference)) continue;
      waiting.score = score_.score(waiting.foreign, waiting.reference);
      if (waiting.score + small_gap < rivals_.best_rival(waiting.foreign, waiting.reference)) continue;
      ties.push_back(waiting);
    }
    return ties;
  }

  // Drops the ties between several modules if there are ties within one. Returns true if there are.
  bool keep_ties_within_modules(std::vector<Proposal>& ties) const {
    std::vector<Proposal> within;
    std::ranges::copy_if(ties, std::back_inserter(within), [&](const Proposal& tie) {
      return !certainty_.scope_of_tie(tie.foreign, tie.reference).exists();
    });
    if (within.empty()) return false;
    ties = std::move(within);
    return true;
  }

  void sort_by_execution(std::vector<Proposal>& ties) {
    if (position_f_.empty()) {
      position_f_ = f_.positions();
      position_r_ = reference_.structure.positions();
    }
    const auto key = [&](const Proposal& tie) {
      return std::pair(position_f_[tie.foreign], position_r_[tie.reference]);
    };
    std::sort(ties.begin(), ties.end(), [&](const Proposal& a, const Proposal& b) { return key(a) < key(b); });
  }

  bool may_be_accepted(const Proposal& proposal) const {
    return proposals_.is_open(proposal.foreign, proposal.reference) && !rivals_.other_form_taken(proposal.reference);
  }

  // `tie_scope`: the scope around the tie from which the pair was chosen; none if there was no tie.
  void accept(const Proposal& proposal, bool certain, ScopeIndex tie_scope) {
    const auto& [score, f, r] = proposal;
    if (!certain) tie_scope = reference_.scopes.together(tie_scope, certainty_.scope_of_earlier_ties(f, r));
    pairs_.pair(f, r, certain, tie_scope);
    pair_links_.link_neighbours(f, r);
  }

  const ForeignStructure& f_;
  const Reference& reference_;
  Correspondence pairs_;
  Likeness likeness_;
  PairScore score_;
  Rivals rivals_;
  Proposals proposals_;
  FoldedArithmetic folded_;
  ValueLinks value_links_;
  PairLinks pair_links_;
  TieCertainty certainty_;
  JointProducts joint_products_;
  Seeds seeds_;
  Bridges bridges_;
  IndexedVector<ForeignNode, std::int32_t> position_f_;  // in execution order, set when first needed
  IndexedVector<ReferenceNode, std::int32_t> position_r_;
};

}  // namespace

Correspondence grow_correspondence(const ForeignStructure& foreign, const Reference& reference,
                                   const EvidenceTable& evidence, const std::vector<KnownValue>& values,
                                   const SameNames& same_names) {
  return Growth(foreign, reference, evidence).grow(values, same_names);
}

}  // namespace whence::match
