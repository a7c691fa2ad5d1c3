// Lowers nodes that their neighbours contradict. A node runs after its sources and before its readers, so its
// operations are between theirs in the order of the recording. A node that is placed elsewhere was mistaken for another
// one: its neighbours show only the module around it.
//
//   foreign   layers.0.qkv -> Slice -> layers.0.out     mistaken for a Slice of layers.2: an `ancestor` in layers.0
//
// Only nodes that are known by their inputs or their names, not by their neighbours, contradict others.
#include <algorithm>

#include "annotator/match/placement.h"

namespace whence::match {

using origin::Confidence;

namespace {

// The limit that the nearest known neighbours on one side set for the units of a node, and the scope around these
// neighbours.
struct Bound {
  UnitIndex unit;
  ScopeIndex scope;
};

class Contradictions {
 public:
  Contradictions(Placement& placement, const EvidenceTable& evidence)
      : placement_(placement),
        f_(placement.foreign),
        evidence_(evidence),
        before_(f_.nodes.size()),
        after_(f_.nodes.size()) {}

  void lower() {
    find_bounds();
    for (const ForeignNode node : f_.order) {
      NodeMatch& match = placement_.matches[node];
      const bool computes = f_.nodes[node].kind != NodeKind::constant;
      if (!computes || match.units.empty() || match.confidence >= Confidence::ancestor || is_anchor(node)) continue;
      const Bound &before = before_[node], &after = after_[node];
      const bool too_early = before.unit.exists() && match.units.back() < before.unit;
      const bool too_late = after.unit.exists() && match.units.front() > after.unit;
      if (!too_early && !too_late) continue;
      const bool enclosed = before.unit.exists() && after.unit.exists();
      match = {.scope = enclosed ? placement_.reference.scopes.common(before.scope, after.scope) : root_scope,
               .confidence = Confidence::ancestor,
               .rule = MatchRule::dataflow};
    }
  }

 private:
  bool is_anchor(ForeignNode node) const {
    const NodeMatch& match = placement_.matches[node];
    if (match.confidence > Confidence::matched || match.units.empty()) return false;
    return std::ranges::any_of(evidence_[node], [&](const Evidence& each) {
      if (each.scope.exists()) return each.scope == match.scope;
      const bool own = std::ranges::find(match.units, each.unit) != match.units.end();
      constexpr double min_strength = 1;  // excludes parameters that many operations share
      return own && each.strength > min_strength;
    });
  }

  void find_bounds() {
    const auto& scopes = placement_.reference.scopes;
    for (const ForeignNode node : f_.order) {
      Bound& bound = before_[node];
      for (const ForeignNode source : placement_.sources(node)) {
        const NodeMatch& match = placement_.matches[source];
        const Bound next = is_anchor(source) ? Bound{match.units.front(), match.scope} : before_[source];
        if (!next.unit.exists()) continue;
        bound.unit = bound.unit.exists() ? std::max(bound.unit, next.unit) : next.unit;
        bound.scope = scopes.together(bound.scope, next.scope);
      }
    }
    for (auto node = f_.order.rbegin(); node != f_.order.rend(); ++node) {
      Bound& bound = after_[*node];
      for (const ForeignNode reader : placement_.readers(*node)) {
        const NodeMatch& match = placement_.matches[reader];
        const Bound next = is_anchor(reader) ? Bound{match.units.back(), match.scope} : after_[reader];
        if (!next.unit.exists()) continue;
        bound.unit = bound.unit.exists() ? std::min(bound.unit, next.unit) : next.unit;
        bound.scope = scopes.together(bound.scope, next.scope);
      }
    }
  }

  Placement& placement_;
  const ForeignStructure& f_;
  const EvidenceTable& evidence_;
  IndexedVector<ForeignNode, Bound> before_, after_;
};

}  // namespace

void lower_contradicted(Placement& placement, const EvidenceTable& evidence) {
  if (placement.reference.program) Contradictions(placement, evidence).lower();  // units have the order of execution
}

}  // namespace whence::match
