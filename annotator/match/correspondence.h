// Correspondence: which nodes and values of a foreign file correspond to which nodes and values of the reference.
//
// The correspondence grows outward from seeds (graph inputs and outputs, evidence of names and weights), one pair of
// nodes at a time, the best supported first. A pair is accepted when it has support (values that correspond, evidence)
// and clearly more support than any rival on either side; ties wait until their surroundings are known. If the two
// sides spell a computation differently, growth steps over nodes that only one side has.
//
// Source of the idea: percolation graph matching (Yartseva, Grossglauser, 2013; Kazemi et al., "Growing a graph
// matching from a handful of seeds", 2015). Cost: n log n; values with very many readers propose no pairs by
// themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "annotator/match/evidence.h"
#include "annotator/match/known_values.h"
#include "annotator/match/reference.h"
#include "annotator/match/same_names.h"
#include "annotator/match/structure.h"

namespace whence::match {

class Correspondence {
 public:
  // All arguments outlive it.
  Correspondence(const ForeignStructure& foreign, const Reference& reference, const EvidenceTable& evidence);

  // `values`: known by their numbers.
  void grow(const std::vector<KnownValue>& values, const SameNames& same_names);

  ReferenceNode node(ForeignNode foreign) const { return node_of_[foreign]; }
  ForeignNode foreign_node(ReferenceNode node) const { return foreign_node_of_[node]; }
  ReferenceValue value(ForeignValue foreign) const { return value_of_[foreign]; }  // loose to loose
  ForeignValue foreign_value(ReferenceValue value) const { return foreign_of_[value]; }
  // Returns the units of a node that does the work of several nodes of the reference; empty for all other nodes.
  const std::vector<UnitIndex>& joint(ForeignNode foreign) const {
    static const std::vector<UnitIndex> none;
    const auto found = joint_.find(foreign);
    return found == joint_.end() ? none : found->second;
  }
  // Returns true if the pair does not depend on a broken tie: no other pair was as good, and its support does not
  // follow from a broken tie; or all pairs that were as good are of the same module.
  bool certain(ForeignNode foreign) const { return certain_[foreign] || sure_of_scope_[foreign]; }
  // Returns the scope around all nodes among which a broken tie chose the partner, or the pair that led to it; none
  // when the pair is certain, or all these nodes are of one scope.
  ScopeIndex tie_scope(ForeignNode foreign) const { return certain(foreign) ? ScopeIndex() : tie_scope_[foreign]; }
  // Returns true if a broken tie chose the partner and an equal one was left over: in a part of a model, or where a
  // tool merged twins, the order of execution says nothing.
  bool guessed(ForeignNode foreign) const { return guessed_[foreign]; }
  bool certain_value(ForeignValue foreign) const { return foreign.exists() && value_certain_[foreign]; }

 private:
  struct Candidate {
    double score;
    ForeignNode foreign;
    ReferenceNode reference;
    bool operator<(const Candidate& other) const {
      if (score != other.score) return score < other.score;
      if (foreign != other.foreign) return foreign > other.foreign;
      return reference > other.reference;
    }
  };

  void seed_interface();
  void seed_kept_values(const SameNames& same_names);
  void seed_values(const std::vector<KnownValue>& values);
  bool may_be_same(ForeignValue fv, ReferenceValue rv) const;
  bool reads_weights_of(ForeignNode f, ReferenceNode r) const;
  bool reads_weights_of_others(ForeignNode f, ReferenceNode r) const;
  void seed_evidence();
  bool seed_changed_weights();
  bool seed(MatchRule rule);
  void link_joint_products();
  std::vector<UnitIndex> parts_of(ForeignNode product, ReferenceValue read, bool& ordered) const;
  bool other_form_taken(ReferenceNode r) const;
  void settle(double gap);
  bool break_ties();
  bool bridge();
  std::vector<std::pair<ForeignValue, ReferenceValue>> open_operands(ForeignNode f, ReferenceNode r) const;
  double computed_alike(ForeignValue fv, ReferenceValue rv) const;

  void propose(ForeignNode f, ReferenceNode r);
  enum class Trust : std::uint8_t { all, certain };  // which links of values count

  double score(ForeignNode f, ReferenceNode r, Trust trust = Trust::all) const;
  // Returns the part of the score that is not mere likeness.
  double support(ForeignNode f, ReferenceNode r, Trust trust = Trust::all) const;
  double evidence_for(ForeignNode f, ReferenceNode r) const;
  double likeness(ForeignNode f, ReferenceNode r) const;
  bool fx_name_agrees_with(ForeignNode f, ReferenceNode r) const;
  double constants_alike(ForeignNode f, ReferenceNode r) const;
  bool kernels_differ(ForeignNode f, ReferenceNode r) const;
  double best_rival(ForeignNode f, ReferenceNode r, Trust trust = Trust::all) const;
  // Returns true if every rival has a far lower score or less support; less likeness alone does not count.
  bool leads_by_support(ForeignNode f, ReferenceNode r, Trust trust) const;
  // Calls `see` with each rival pair: f with another reference node, or another foreign node with r.
  template <class See>
  void see_rivals(ForeignNode f, ReferenceNode r, Trust trust, const See& see) const {
    // With Trust::certain, a node whose partner came from a broken tie counts as free.
    const auto free = [&](ForeignNode foreign) {
      return !foreign.exists() || !node_of_[foreign].exists() || (trust == Trust::certain && !certain_[foreign]);
    };
    for (const ReferenceNode other : rivals_of_f_[f]) {
      // Another form of the same operation is not a rival.
      if (other != r && free(foreign_node_of_[other]) && !same_units(other, r)) see(f, other);
    }
    for (const ForeignNode other : rivals_of_r_[r]) {
      if (other != f && free(other)) see(other, r);
    }
  }
  bool same_units(ReferenceNode a, ReferenceNode b) const;

  ScopeIndex scope_of_tie(ForeignNode f, ReferenceNode r) const;
  ScopeIndex scope_of_ties_around(ForeignNode f, ReferenceNode r) const;
  bool stands_alone(ForeignNode f, ReferenceNode r) const;
  bool rivals_share_scope(ForeignNode f, ReferenceNode r) const;
  bool leaves_equal_rival(ForeignNode f, ReferenceNode r) const;
  bool may_be_guessed(ForeignNode f) const;
  void spread_guess(ForeignNode f);
  void confirm();
  void confirm_values(ForeignNode f, ReferenceNode r);

  void accept(ForeignNode f, ReferenceNode r, bool certain);
  void link(ForeignValue fv, ReferenceValue rv);
  void link_inputs(ForeignNode f, ReferenceNode r);
  void link_inputs_of_other_forms(ForeignNode f, ReferenceNode r);
  void link_outputs(ForeignNode f, ReferenceNode r);
  bool taken_in_by_product(ReferenceValue value) const;
  bool may_have_taken_in(ForeignValue fv) const;
  ForeignValue added_value(ForeignNode f) const;
  bool adds(const StructureUse<Side::foreign>& use) const;
  bool reads_as_it_is(const StructureUse<Side::foreign>& use) const;
  bool is_own_scaling(ReferenceNode r) const;
  ReferenceValue behind_scalings(ForeignValue fv, ReferenceValue rv) const;
  ReferenceValue behind_folded(ForeignValue fv, ReferenceValue rv) const;
  void link_behind_sum(ForeignValue fv, ReferenceValue rv);
  struct Residual {
    ReferenceValue sum, addend;
  };
  std::optional<Residual> residual_of(ForeignNode f, ReferenceNode r) const;
  void link_unlike_inputs(const std::vector<ForeignValue>& a, const std::vector<ReferenceValue>& b);
  void link_up(ForeignValue fv, ReferenceValue rv);
  void link_down(ForeignValue fv, ReferenceValue rv);
  bool producers_alike(ForeignValue fv, ReferenceValue rv) const;
  bool does_the_same(ForeignNode f, ReferenceNode r) const;
  double consumers_alike(ForeignValue fv, ReferenceValue rv) const;

  const ForeignStructure& f_;
  const Reference& reference_;
  const ReferenceStructure& r_;
  const EvidenceTable& evidence_;
  IndexedVector<ForeignNode, ReferenceNode> node_of_;
  IndexedVector<ReferenceNode, ForeignNode> foreign_node_of_;
  IndexedVector<ForeignValue, ReferenceValue> value_of_;
  IndexedVector<ReferenceValue, ForeignValue> foreign_of_;
  IndexedVector<ForeignNode, bool> certain_, sure_of_scope_, guessed_;
  IndexedVector<ForeignValue, bool> value_certain_;
  IndexedVector<ForeignNode, ScopeIndex> tie_scope_;
  IndexedVector<ForeignValue, ScopeIndex> value_tie_scope_;
  bool linking_certain_ = true;  // the pair that is being linked is certain
  ScopeIndex linking_scope_;     // its tie_scope()
  bool tie_broken_ = false;
  IndexedVector<ForeignNode, std::vector<ReferenceNode>> rivals_of_f_;  // proposed partners
  IndexedVector<ReferenceNode, std::vector<ForeignNode>> rivals_of_r_;
  std::unordered_map<ForeignNode, std::vector<UnitIndex>> joint_;
  std::unordered_map<std::uint64_t, double> bonus_;  // extra score of pairs that bridging proposed
  std::priority_queue<Candidate> queue_;
  std::vector<Candidate> waiting_;
  bool sketches_seeded_ = false, shapes_seeded_ = false;
  int bridges_ = 0;
  IndexedVector<ForeignNode, std::int32_t> position_f_;  // in execution order, made when first needed
  IndexedVector<ReferenceNode, std::int32_t> position_r_;
};

}  // namespace whence::match
