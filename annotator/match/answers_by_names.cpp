#include "annotator/match/answers_by_names.h"

#include <algorithm>

#include "annotator/match/contradicted_names.h"
#include "annotator/match/folded_norms_by_names.h"
#include "annotator/match/weigh_names.h"

namespace whence::match {

using origin::Confidence;

namespace {

// Limits the confidence of an answer that only names give: tools that fuse keep the name of one of the nodes they
// replaced.
void lower_confidence(Placement& placement, ForeignNode node) {
  NodeMatch& match = placement.matches[node];
  if (match.confidence == Confidence::matched) match.confidence = Confidence::inferred;
  const bool may_be_fused = placement.foreign.nodes[node].domain == "com.microsoft";
  if (may_be_fused && match.confidence == Confidence::inferred) placement.raise_to_parent(node);
}

void place_named(Placement& placement, ForeignNode node, std::vector<Evidence>& evidence, const SettledName& settled) {
  // A parameter's reader belongs to the module that the parameter's name begins with.
  for (Evidence& each : evidence) {
    if (each.unit.exists()) each.scope = placement.reference.units[each.unit].scope;
  }
  weigh_names(placement, node, evidence);
  NodeMatch& match = placement.matches[node];
  if (settled.scope.exists() && (match.rule == MatchRule::names || match.rule == MatchRule::initializers)) {
    match.scope = settled.scope;
    match.confidence = std::max(match.confidence, settled.max_confidence);
  }
  raise_folded_convolution(placement, node, evidence);
  lower_confidence(placement, node);
}

}  // namespace

void place_by_names(Placement& placement, const ScopeReader& reader, EvidenceTable& evidence) {
  const auto settled = settle_contradicted_names(placement.reference, reader, evidence);
  for (const ForeignNode i : evidence.keys()) place_named(placement, i, evidence[i], settled[i]);
  raise_folded_integer_convolutions(placement);
  place_inserted(placement, /*quantizers_only=*/true);
  for (NodeMatch& match : placement.matches) {
    if (match.rule == MatchRule::inserted) match.confidence = std::max(match.confidence, Confidence::inferred);
  }
  place_between(placement);
}

}  // namespace whence::match
