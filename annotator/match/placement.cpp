#include "annotator/match/placement.h"

#include <algorithm>

namespace whence::match {

using origin::Confidence;

std::int32_t Placement::scope_of(const std::vector<std::int32_t>& units) const {
  std::int32_t scope = -1;
  for (const std::int32_t unit : units) {
    const std::int32_t other = reference.units[unit].scope;
    if (other < 0) continue;
    scope = scope < 0 ? other : reference.common_scope(scope, other);
  }
  return scope;
}

bool Placement::one_scope(const std::vector<std::int32_t>& units) const {
  return !units.empty() && std::all_of(units.begin(), units.end(), [&](std::int32_t unit) {
    return reference.units[unit].scope == reference.units[units.front()].scope;
  });
}

std::vector<std::int32_t> Placement::readers(std::int32_t node) const {
  std::vector<std::int32_t> found;
  for (const std::int32_t output : foreign.nodes[node].outputs) {
    if (output < 0) continue;
    for (const StructureUse& use : foreign.values[output].uses) {
      if (use.node >= 0) found.push_back(use.node);
    }
  }
  return found;
}

std::vector<std::int32_t> Placement::sources(std::int32_t node) const {
  std::vector<std::int32_t> found;
  for (const std::int32_t input : foreign.nodes[node].inputs) {
    if (input < 0 || foreign.values[input].constant) continue;
    for (const std::int32_t producer : foreign.values[input].producers) found.push_back(producer);
  }
  return found;
}

std::int32_t Placement::speaker_for(std::int32_t node, const std::vector<std::int32_t>& nodes) const {
  for (const std::int32_t other : nodes) {
    if (!placed(other)) continue;
    for (const std::int32_t unit : matches[other].units) {
      if (reference.classes_of_unit[unit].count(foreign.nodes[node].op_class) != 0) return other;
    }
  }
  return -1;
}

void Placement::place(std::int32_t node, std::vector<std::int32_t> units, Confidence confidence, MatchRule rule) {
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  NodeMatch& match = matches[node];
  match.scope = scope_of(units);
  match.units = std::move(units);
  match.confidence = match.scope < 0 ? Confidence::unattributed : std::max(confidence, surest(match.units));
  match.rule = rule;
}

Confidence Placement::surest(const std::vector<std::int32_t>& units) const {
  Confidence weakest = Confidence::exact;
  for (const std::int32_t unit : units) {
    if (reference.units[unit].scope >= 0) weakest = std::max(weakest, reference.units[unit].confidence);
  }
  return weakest;
}

}  // namespace whence::match
