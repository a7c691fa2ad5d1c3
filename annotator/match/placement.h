// Placement: decides for every node of the foreign file which units it represents, with which confidence and by which
// rule, from the corresponding nodes and values.
//
// The steps, in order, each for nodes that the earlier steps left open:
//   nodes that whence itself stamped (stamped_nodes.cpp)
//   corresponding nodes, with the operations that they absorbed (cone.cpp)
//   stretches of computing nodes without a partner, between values that correspond (stretch.cpp)
//   rearrangements between two computing nodes (layout.cpp)
//   nodes that a tool inserted for an operator: casts, quantisation, layouts (inserted_nodes.cpp)
//   other rearrangements (layout.cpp)
//   constants that the reference has as well (constants.cpp)
//   nodes that serve placed nodes: constants, sizes (dataflow.cpp)
// Then nodes that represent equal computations of several modules get all of these modules (twins.cpp), nodes that
// their neighbours contradict are lowered (contradictions.cpp), the scopes of nodes with confidence `ancestor` are
// raised until they enclose all candidates (ancestors.cpp), and some of these nodes are placed by the name that an
// exporter gave them (fx_named_nodes.cpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "annotator/match/correspondence.h"
#include "annotator/match/evidence.h"
#include "annotator/match/file_structure.h"
#include "annotator/match/reference.h"
#include "annotator/match/same_names.h"
#include "annotator/match/structure.h"

namespace whence::match {

struct Placement {
  const ForeignStructure& foreign;
  const Reference& reference;
  const Correspondence& pairs;
  IndexedVector<ForeignNode, NodeMatch> matches;

  bool placed(ForeignNode node) const { return matches[node].confidence != origin::Confidence::unattributed; }
  // Returns true if no later step has to look at the node: it is placed, or it represents units with an unknown module.
  // Neighbours do not show the module of such units.
  bool settled(ForeignNode node) const { return placed(node) || !matches[node].units.empty(); }
  // Sets units and their common scope. The confidence does not exceed that of the units.
  void place(ForeignNode node, std::vector<UnitIndex> units, origin::Confidence confidence, MatchRule rule);
  // The same in a scope that is known without the units, of which there may be none.
  void place_in(ForeignNode node, ScopeIndex scope, std::vector<UnitIndex> units, origin::Confidence confidence,
                MatchRule rule);
  // Places a node in an unknown module inside a known scope: as `ancestor`, by dataflow.
  void place_inside(ForeignNode node, ScopeIndex scope);
  // Raises the match to the scope around its own, for a node that absorbed more than its name or parameters show.
  void raise_to_parent(ForeignNode node);
  // Returns the highest confidence that a node representing the units can have: that of the reference in the least
  // certain of them.
  origin::Confidence max_confidence(const std::vector<UnitIndex>& units) const;
  ScopeIndex scope_of(std::span<const UnitIndex> units) const;
  // Returns the first of `nodes` that is placed and whose units use the operator of `node` in some form of the
  // reference; none if there is none.
  ForeignNode first_with_operator_of(ForeignNode node, const std::vector<ForeignNode>& nodes) const;
  std::vector<ForeignNode> readers(ForeignNode node) const;  // nodes that read its results
  std::vector<ForeignNode> sources(ForeignNode node) const;  // nodes that compute its inputs, without constants
  bool one_scope(const std::vector<UnitIndex>& units) const;
  // Returns the reference's vanished_units between the last unit of the nodes `before` and the first unit of the nodes
  // `after`.
  std::span<const UnitIndex> vanished_between(const std::vector<ForeignNode>& before,
                                              const std::vector<ForeignNode>& after) const;
};

void place_stamped(Placement& placement,
                   const FileStructure<Side::foreign>& foreign);  // only if the stamps belong to this program
void place_corresponding(Placement& placement);
void place_stretches(Placement& placement);
void place_layout(Placement& placement);
// `quantizers_only`: not casts and layouts. Without a reference, these may be the model's own.
void place_inserted(Placement& placement, bool quantizers_only = false);
void place_leftovers(Placement& placement);
void place_constants(Placement& placement, const EvidenceTable& evidence);
void place_kept(Placement& placement, const SameNames& names);  // only if the reference is the tool's input
void place_by_dataflow(Placement& placement);
void join_twins(Placement& placement);
void lower_contradicted(Placement& placement, const EvidenceTable& evidence);
void raise_ancestors(Placement& placement);
void place_fx_named(Placement& placement, const EvidenceTable& evidence);
void place_between(Placement& placement);  // only nodes between nodes of one scope, and constants

// Returns the units of the bias of a linear layer that a fused node adds, if the node reads more vectors than `needed`;
// else none.
std::vector<UnitIndex> absorbed_biases(const Placement& placement, ForeignNode node, std::ptrdiff_t needed);

// Returns the units of the activation that a fused node states, if its result corresponds to no later value than `own`,
// the partner's result. It is the only reader of `own`, possibly after a batch norm, and no other foreign node computes
// it.
std::vector<UnitIndex> stated_activation(const Placement& placement, ForeignNode node, ReferenceValue own);

// Returns the longest common subsequence of two sequences under `alike`, as pairs of positions. Quadratic cost.
std::vector<std::pair<std::size_t, std::size_t>> align_sequences(std::size_t a, std::size_t b, const auto& alike) {
  std::vector<std::vector<std::int32_t>> best(a + 1, std::vector<std::int32_t>(b + 1, 0));
  for (std::size_t i = a; i-- > 0;) {
    for (std::size_t j = b; j-- > 0;) {
      const int worth = alike(i, j);
      best[i][j] = std::max(best[i + 1][j], best[i][j + 1]);
      if (worth > 0) best[i][j] = std::max(best[i][j], best[i + 1][j + 1] + worth);
    }
  }
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0, j = 0; i < a && j < b;) {
    const int worth = alike(i, j);
    if (worth > 0 && best[i][j] == best[i + 1][j + 1] + worth) {
      pairs.emplace_back(i++, j++);
    } else if (best[i][j] == best[i + 1][j]) {
      ++i;
    } else {
      ++j;
    }
  }
  return pairs;
}

}  // namespace whence::match
