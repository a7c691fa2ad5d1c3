#include "annotator/match/weigh_names.h"

#include <algorithm>

#include "annotator/operators/onnx_operators.h"

namespace whence::match {

using origin::Confidence;

namespace {

constexpr double stamp_strength = 4;  // of whence's own metadata, which is exact
// A name with more strength states the operator's own module. A shortened name may mean a child (scopes_in_names.cpp).
constexpr double name_strength = 1;

// Returns the strongest evidence of a scope in names or keys; of equally strong ones, the nearest to the structure's
// answer. Returns null if there is none.
const Evidence* strongest_stated_scope(const std::vector<Evidence>& evidence, const Reference& reference,
                                       const NodeMatch& match) {
  const Evidence* best = nullptr;
  for (const Evidence& each : evidence) {
    if (!each.scope.exists()) continue;
    if (best == nullptr || each.strength > best->strength) best = &each;
    if (each.strength == best->strength && match.scope.exists() &&
        reference.scopes.common(each.scope, match.scope) > reference.scopes.common(best->scope, match.scope)) {
      best = &each;
    }
  }
  return best;
}

// Replaces the match with the answer of the evidence, with at most its confidence.
void adopt(NodeMatch& match, const Evidence& evidence, Confidence confidence) {
  match.units.clear();
  match.shared = false;
  match.scope = evidence.scope;
  match.confidence = std::max(confidence, evidence.max_confidence);
  match.rule = evidence.rule;
}

void apply_stamp(NodeMatch& match, const Evidence& stated) {
  const Confidence found = match.scope == stated.scope ? match.confidence : Confidence::unattributed;
  if (match.scope != stated.scope) adopt(match, stated, Confidence::exact);
  match.confidence = std::min(found, stated.max_confidence);
  match.rule = stated.rule;
}

// Returns true if no name can improve the answer of structure. `ceiling`: the confidence of the reference in the node's
// units. A name cannot exceed it: it came from the reference as well.
bool is_decided(const Placement& placement, ForeignNode node, Confidence ceiling) {
  const NodeMatch& match = placement.matches[node];
  if (match.confidence <= Confidence::matched || match.rule == MatchRule::carried) return true;
  if (!placement.placed(node) && placement.settled(node)) return true;
  return ceiling > Confidence::matched && match.confidence == ceiling;
}

// Returns true if the node was fused from several, and keeps the name of one of them.
bool is_name_of_part(const NodeMatch& match, const Evidence& stated, const Reference& reference) {
  return !match.shared && match.units.size() > 1 &&
         std::ranges::any_of(match.units, [&](UnitIndex unit) { return reference.units[unit].scope == stated.scope; });
}

// Returns false for an operator that the module has in no form of the reference: it keeps the name of an operation that
// it absorbed, or it is another model's.
bool may_be_of(const Reference& reference, ScopeIndex scope, const StructureNode<Side::foreign>& node) {
  if (reference.structure.nodes.empty() || node.kind != NodeKind::heavy) return true;
  if (!node.domain.empty() && !origin::is_of_runtime(node.domain)) return true;  // a user's operator
  if (operators::has(node.op_type, operators::size_arithmetic)) return true;     // each exporter has its own
  const std::vector<std::uint16_t>& classes = reference.classes_of_scope[scope];
  return std::ranges::find(classes, node.op_class) != classes.end();
}

}  // namespace

void weigh_names(Placement& placement, ForeignNode node, const std::vector<Evidence>& evidence) {
  NodeMatch& match = placement.matches[node];
  const Reference& reference = placement.reference;
  const Evidence* stated = strongest_stated_scope(evidence, reference, match);
  if (stated == nullptr) return;
  if (stated->strength >= stamp_strength) return apply_stamp(match, *stated);
  const Confidence ceiling = placement.max_confidence(match.units);
  if (is_decided(placement, node, ceiling) || is_name_of_part(match, *stated, reference)) return;
  if (match.scope == stated->scope && match.units.size() < 2 && match.confidence != Confidence::unattributed) {
    match.confidence = std::min(match.confidence, std::max({Confidence::matched, stated->max_confidence, ceiling}));
    return;
  }
  const bool may_mean_child = stated->strength <= name_strength && match.scope.exists() &&
                              reference.scopes.common(stated->scope, match.scope) == stated->scope;
  if (may_mean_child) return;
  // Tools that merge rearrangements keep the name of either; the position is better evidence.
  if (match.rule == MatchRule::layout && match.confidence == Confidence::inferred) return;
  const auto& entry = placement.foreign.nodes[node];
  const bool fits = may_be_of(reference, stated->scope, entry);
  adopt(match, *stated, stated->strength > name_strength && fits ? Confidence::matched : Confidence::inferred);
  // A fused node belongs to the module around all nodes that it replaced.
  if (!fits && origin::is_of_runtime(entry.domain)) placement.raise_to_parent(node);
}

}  // namespace whence::match
