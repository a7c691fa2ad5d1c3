#include "annotator/match/checked_names.h"

namespace whence::match {

CheckedNames::CheckedNames(const Placement& placement, const TensorOwners& owners, const EvidenceTable& evidence)
    : evidence_(evidence), is_misleading_(placement.reference.scopes.size(), false) {
  const origin::CallTree& scopes = placement.reference.scopes;
  for (const ForeignNode node : placement.foreign.nodes.keys()) {
    const Evidence* name = placement.placed(node) ? strongest_name(node) : nullptr;
    if (name == nullptr || placement.foreign.nodes[node].kind == NodeKind::constant) continue;
    const ScopeIndex own = placement.matches[node].scope;
    if (scopes.within(name->scope, own) || scopes.within(own, name->scope)) continue;
    if (owners.has_parameters(name->scope)) continue;  // a neighbour's name that a tool kept, of the same vocabulary
    // The enclosing modules are misleading as well, up to the common one.
    const ScopeIndex common = scopes.common(own, name->scope);
    for (ScopeIndex at = name->scope; at.exists() && at != common; at = scopes[at].parent) is_misleading_[at] = true;
  }
}

const Evidence* CheckedNames::name_of(ForeignNode node) const {
  const Evidence* name = strongest_name(node);
  return name != nullptr && !is_misleading_[name->scope] ? name : nullptr;
}

const Evidence* CheckedNames::strongest_name(ForeignNode node) const {
  const Evidence* best = nullptr;
  for (const Evidence& each : evidence_[node]) {
    if (each.scope.exists() && (best == nullptr || each.strength >= best->strength)) best = &each;
  }
  return best;
}

}  // namespace whence::match
