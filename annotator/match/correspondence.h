// Correspondence: which nodes and values of a foreign file are which of the reference.
//
// Grows outward from seeds (graph inputs and outputs, evidence of names and weights), one pair of nodes at a time, the
// best supported first. A pair is accepted when it has support (values that correspond, evidence) and clearly more of
// it than any rival on either side; ties wait until their surroundings are known. Source of the idea: percolation graph
// matching (Yartseva, Grossglauser, 2013; Kazemi et al., "Growing a graph matching from a handful of seeds", 2015).
// Where the two sides spell a computation differently, growth steps over nodes that only one side has.
// Cost: n log n; values with very many readers propose no pairs by themselves.
#pragma once

#include <cstdint>
#include <queue>
#include <unordered_map>
#include <vector>

#include "annotator/match/evidence.h"
#include "annotator/match/reference.h"
#include "annotator/match/structure.h"

namespace whence::match {

class Correspondence {
 public:
  // All outlive it.
  Correspondence(const Structure& foreign, const Reference& reference, const EvidenceTable& evidence);

  void grow();

  std::int32_t node(std::int32_t foreign) const { return node_of_[foreign]; }  // of the reference; -1
  std::int32_t foreign_node(std::int32_t node) const { return foreign_node_of_[node]; }
  std::int32_t value(std::int32_t foreign) const { return value_of_[foreign]; }  // loose to loose; -1
  std::int32_t foreign_value(std::int32_t value) const { return foreign_of_[value]; }
  // Units of one node that does the work of several alike; empty for all others.
  const std::vector<std::int32_t>& joint(std::int32_t foreign) const {
    static const std::vector<std::int32_t> none;
    const auto found = joint_.find(foreign);
    return found == joint_.end() ? none : found->second;
  }
  // The pair stands without a broken tie: no other one was as good, nor is what supports it due to a broken tie; or all
  // that were as good are of the same module.
  bool certain(std::int32_t foreign) const { return certain_[foreign] || sure_of_scope_[foreign]; }
  // The scope around all nodes among which a broken tie chose the partner, or that of what led to it; -1 when the pair
  // is certain, or all of them are of one scope.
  std::int32_t tie_scope(std::int32_t foreign) const { return certain(foreign) ? -1 : tie_scope_[foreign]; }
  bool certain_value(std::int32_t foreign) const { return foreign >= 0 && value_certain_[foreign]; }

 private:
  struct Candidate {
    double score;
    std::int32_t foreign, reference;
    bool operator<(const Candidate& other) const {
      if (score != other.score) return score < other.score;
      if (foreign != other.foreign) return foreign > other.foreign;
      return reference > other.reference;
    }
  };

  void seed_interface();
  bool may_be_same(std::int32_t fv, std::int32_t rv) const;
  void seed_evidence();
  bool seed_shapes();
  void link_joint_products();
  std::vector<std::int32_t> parts_of(std::int32_t product, std::int32_t read, bool& ordered) const;
  bool other_form_taken(std::int32_t r) const;
  void settle(double gap);
  bool break_ties();
  bool bridge();

  void propose(std::int32_t f, std::int32_t r);
  enum class Trust : std::uint8_t { all, certain };  // which links of values count

  double score(std::int32_t f, std::int32_t r, Trust trust = Trust::all) const;
  // The part of the score that is not mere likeness.
  double support(std::int32_t f, std::int32_t r, Trust trust = Trust::all) const;
  double evidence_for(std::int32_t f, std::int32_t r) const;
  double likeness(std::int32_t f, std::int32_t r) const;
  bool fx_name_agrees_with(std::int32_t f, std::int32_t r) const;
  double constants_alike(const StructureNode& f, const StructureNode& r) const;
  bool kernels_differ(const StructureNode& f, const StructureNode& r) const;
  double best_rival(std::int32_t f, std::int32_t r, Trust trust = Trust::all) const;
  // Every rival is far behind, or has less that supports it; not only less that makes it alike.
  bool leads_by_support(std::int32_t f, std::int32_t r, Trust trust) const;
  // Calls `see` with the pairs that the nodes could as well be of.
  template <class See>
  void see_rivals(std::int32_t f, std::int32_t r, Trust trust, const See& see) const {
    // A partner that a broken tie gave is free to whoever trusts certain pairs alone.
    const auto free = [&](std::int32_t foreign) {
      return foreign < 0 || node_of_[foreign] < 0 || (trust == Trust::certain && !certain_[foreign]);
    };
    for (const std::int32_t other : rivals_of_f_[f]) {
      // Another form of the same operation is no rival.
      if (other != r && free(foreign_node_of_[other]) && !same_units(other, r)) see(f, other);
    }
    for (const std::int32_t other : rivals_of_r_[r]) {
      if (other != f && free(other)) see(other, r);
    }
  }
  bool same_units(std::int32_t a, std::int32_t b) const;

  std::int32_t together(std::int32_t a, std::int32_t b) const;  // the scope around both; -1 is none
  std::int32_t scope_of_tie(std::int32_t f, std::int32_t r) const;
  std::int32_t scope_of_ties_around(std::int32_t f, std::int32_t r) const;
  bool stands_alone(std::int32_t f, std::int32_t r) const;
  bool rivals_share_scope(std::int32_t f, std::int32_t r) const;
  void confirm();
  void confirm_values(std::int32_t f, std::int32_t r);

  void accept(std::int32_t f, std::int32_t r, bool certain);
  void link(std::int32_t fv, std::int32_t rv);
  void link_inputs(std::int32_t f, std::int32_t r);
  void link_outputs(std::int32_t f, std::int32_t r);
  bool taken_in_by_product(std::int32_t value) const;
  bool may_have_taken_in(std::int32_t fv) const;
  bool is_own_scaling(std::int32_t r) const;
  std::int32_t behind_scalings(std::int32_t fv, std::int32_t rv) const;
  std::int32_t behind_folded(std::int32_t fv, std::int32_t rv) const;
  void link_behind_sum(std::int32_t fv, std::int32_t rv);
  void link_unlike_inputs(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b);
  void link_up(std::int32_t fv, std::int32_t rv);
  void link_down(std::int32_t fv, std::int32_t rv);
  bool producers_alike(std::int32_t fv, std::int32_t rv) const;
  bool does_the_same(const StructureNode& f, const StructureNode& r) const;
  double consumers_alike(std::int32_t fv, std::int32_t rv) const;

  static bool may_be_stepped_over(const Structure& s, const StructureNode& node);
  static std::vector<std::int32_t> upward(const Structure& s, std::int32_t value);
  static std::vector<std::int32_t> downward(const Structure& s, std::int32_t value, std::size_t most_uses);

  class Lookout;

  const Structure& f_;
  const Reference& reference_;
  const Structure& r_;
  const EvidenceTable& evidence_;
  std::vector<std::int32_t> node_of_, foreign_node_of_, value_of_, foreign_of_;
  std::vector<bool> certain_, sure_of_scope_, value_certain_;
  std::vector<std::int32_t> tie_scope_, value_tie_scope_;  // of foreign nodes, of values: tie_scope()
  bool linking_certain_ = true;                            // of the pair that is being linked
  std::int32_t linking_scope_ = -1;                        // its tie_scope()
  bool tie_broken_ = false;
  std::vector<std::vector<std::int32_t>> rivals_of_f_, rivals_of_r_;  // proposed partners
  std::unordered_map<std::int32_t, std::vector<std::int32_t>> joint_;
  std::unordered_map<std::uint64_t, double> bonus_;  // of pairs that bridging proposed
  std::priority_queue<Candidate> queue_;
  std::vector<Candidate> waiting_;
  bool shapes_seeded_ = false;
  int bridges_ = 0;
  std::vector<std::int32_t> position_f_, position_r_;  // in execution order, made when first needed
};

}  // namespace whence::match
