#include "annotator/match/placement.h"

#include <algorithm>

namespace whence {

std::int32_t Placement::scope_of(const std::vector<std::int32_t>& units) const {
  std::int32_t scope = -1;
  for (const std::int32_t unit : units) {
    const std::int32_t other = reference.units[unit].scope;
    scope = scope < 0 ? other : reference.common_scope(scope, other);
  }
  return scope;
}

bool Placement::one_scope(const std::vector<std::int32_t>& units) const {
  return !units.empty() && std::all_of(units.begin(), units.end(), [&](std::int32_t unit) {
    return reference.units[unit].scope == reference.units[units.front()].scope;
  });
}

void Placement::place(std::int32_t node, std::vector<std::int32_t> units, MatchConfidence confidence, MatchRule rule) {
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  NodeMatch& match = matches[node];
  match.scope = scope_of(units);
  match.units = std::move(units);
  match.confidence = confidence;
  match.rule = rule;
}

}  // namespace whence
