#include "annotator/match/nearest_modules.h"

#include <algorithm>

namespace whence::match {

NearestModules::NearestModules(const Placement& placement, const TensorOwners& owners)
    : placement_(placement),
      scopes_(placement.reference.scopes),
      owners_(owners),
      known_(placement.foreign.nodes.size(), false),
      before_(placement.foreign.nodes.size()),
      after_(placement.foreign.nodes.size()) {
  const auto& order = placement.foreign.order;
  for (const ForeignNode node : placement.foreign.nodes.keys()) known_[node] = placement.placed(node);
  for (const ForeignNode node : order) {
    for (const ForeignNode source : placement.sources(node)) add(before_[node], source, before_);
  }
  for (auto node = order.rbegin(); node != order.rend(); ++node) {
    for (const ForeignNode reader : placement.readers(*node)) add(after_[*node], reader, after_);
  }
}

ScopeIndex NearestModules::around(const std::vector<ScopeIndex>& before, const std::vector<ScopeIndex>& after) const {
  ScopeIndex best = root_scope;
  for (const ScopeIndex a : before) {
    for (const ScopeIndex b : after) {
      ScopeIndex common = scopes_.common(a, b);
      while (common != root_scope && (owners_.is_container(common) || owners_.is_called_often(common)))
        common = scopes_[common].parent;
      if (scopes_[common].depth > scopes_[best].depth) best = common;
    }
  }
  return best;
}

ScopeIndex NearestModules::around_all(ForeignNode node) const {
  ScopeIndex scope;
  for (const ScopeIndex module : after_[node]) scope = scopes_.together(scope, around(before_[node], {module}));
  return std::max(scope, root_scope);
}

// Adds the module of a neighbour, or `further` modules beyond it if the neighbour is not known.
void NearestModules::add(std::vector<ScopeIndex>& modules, ForeignNode neighbour,
                         const IndexedVector<ForeignNode, std::vector<ScopeIndex>>& further) const {
  constexpr std::size_t max_modules = 8;
  const auto add_once = [&](ScopeIndex scope) {
    if (modules.size() < max_modules && std::ranges::find(modules, scope) == modules.end()) modules.push_back(scope);
  };
  if (known_[neighbour]) return add_once(placement_.matches[neighbour].scope);
  for (const ScopeIndex scope : further[neighbour]) add_once(scope);
}

}  // namespace whence::match
