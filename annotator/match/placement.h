// Placement: decides for every node of the foreign file, from corresponding nodes and values, which units it stands
// for, how sure that is, and by which rule.
//
// The steps, in order, each for nodes that the steps before left open:
//   nodes that whence itself stamped (stamped.cpp)
//   corresponding nodes, with what they took in (cone.cpp)
//   stretches of computing nodes without partner, between values that correspond (stretch.cpp)
//   rearrangements between two computing nodes (layout.cpp)
//   nodes that a tool inserted for an operator: casts, quantisation, layouts (inserted.cpp)
//   other rearrangements (layout.cpp)
//   constants that the reference has, too (constants.cpp)
//   nodes that serve placed nodes: constants, sizes (dataflow.cpp)
// Then nodes that stand for what several modules compute alike get all of them (twins.cpp), nodes that their neighbours
// contradict are lowered (contradictions.cpp), the scopes of nodes with confidence `ancestor` are raised until they
// enclose all candidates (ancestors.cpp), and some of those are known by an exporter's name (fx_named.cpp).
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
  // True when no later step has to look at the node: it is placed, or stands for units of which the reference does not
  // know the module. Then nothing else says it for them.
  bool settled(ForeignNode node) const { return placed(node) || !matches[node].units.empty(); }
  // Sets units and their common scope; no surer than the units.
  void place(ForeignNode node, std::vector<UnitIndex> units, origin::Confidence confidence, MatchRule rule);
  // Places a node inside a scope, which is known, in a module that is not: as `ancestor`, by dataflow.
  void place_inside(ForeignNode node, ScopeIndex scope);
  // Raises the match to the scope around its own, for a node that took in more than its name or parameters show.
  void raise_to_parent(ForeignNode node);
  // Returns the confidence of the reference in the least certain of the units, the most that a node that stands for
  // them can have.
  origin::Confidence surest(const std::vector<UnitIndex>& units) const;
  ScopeIndex scope_of(std::span<const UnitIndex> units) const;
  // The units of one of `nodes` (placed ones only) that use an operator of this class somewhere; the first such.
  ForeignNode speaker_for(ForeignNode node, const std::vector<ForeignNode>& nodes) const;
  std::vector<ForeignNode> readers(ForeignNode node) const;  // nodes that read its results
  std::vector<ForeignNode> sources(ForeignNode node) const;  // nodes whose results it computes from, no constants
  bool one_scope(const std::vector<UnitIndex>& units) const;
  // Returns the reference's vanished_units between the last unit of the nodes `before` and the first one of the nodes
  // `behind`.
  std::span<const UnitIndex> vanished_between(const std::vector<ForeignNode>& before,
                                              const std::vector<ForeignNode>& behind) const;
};

void place_stamped(Placement& placement,
                   const FileStructure<Side::foreign>& foreign);  // only where the stamps are this program's
void place_corresponding(Placement& placement);
void place_stretches(Placement& placement);
void place_layout(Placement& placement);
// `quantizers_only`: not casts and layouts, which may be the model's where there is no reference to show it.
void place_inserted(Placement& placement, bool quantizers_only = false);
void place_leftovers(Placement& placement);
void place_constants(Placement& placement, const EvidenceTable& evidence);
void place_kept(Placement& placement, const SameNames& names);  // when the reference is the file before a tool
void place_by_dataflow(Placement& placement);
void join_twins(Placement& placement);
void lower_contradicted(Placement& placement, const EvidenceTable& evidence);
void raise_ancestors(Placement& placement);
void place_fx_named(Placement& placement, const EvidenceTable& evidence);
void place_between(Placement& placement);  // only nodes between nodes of one scope, and constants

// Returns the units of a linear layer whose bias a fused node adds, if the node reads more vectors than `needed`; else
// none.
std::vector<UnitIndex> biases_taken_in(const Placement& placement, ForeignNode node, std::ptrdiff_t needed);

// Returns the units of the activation that a fused node states, where its result corresponds to no later value than
// `own`, the partner's result: the activation that alone reads `own`, behind a batch norm perhaps, and that no other
// foreign node computes.
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
