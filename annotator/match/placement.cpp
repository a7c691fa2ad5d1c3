#include "annotator/match/placement.h"

#include <algorithm>

#include "schema/sort_unique.h"

namespace whence::match {

using origin::Confidence;

ScopeIndex Placement::scope_of(std::span<const UnitIndex> units) const {
  ScopeIndex scope;
  for (const UnitIndex unit : units) scope = reference.scopes.together(scope, reference.units[unit].scope);
  return scope;
}

bool Placement::one_scope(const std::vector<UnitIndex>& units) const {
  return !units.empty() && std::all_of(units.begin(), units.end(), [&](UnitIndex unit) {
    return reference.units[unit].scope == reference.units[units.front()].scope;
  });
}

std::span<const UnitIndex> Placement::vanished_between(const std::vector<ForeignNode>& before,
                                                       const std::vector<ForeignNode>& after) const {
  UnitIndex from(0), to(reference.units.size());
  for (const ForeignNode node : before) {
    for (const UnitIndex unit : matches[node].units) from = std::max(from, unit);
  }
  for (const ForeignNode node : after) {
    for (const UnitIndex unit : matches[node].units) to = std::min(to, unit);
  }
  const auto first = std::ranges::lower_bound(reference.vanished_units, from);
  return {first, std::max(first, std::ranges::lower_bound(reference.vanished_units, to))};
}

std::vector<ForeignNode> Placement::readers(ForeignNode node) const {
  std::vector<ForeignNode> found;
  for (const ForeignValue output : foreign.nodes[node].outputs) {
    if (!output.exists()) continue;
    for (const auto& use : foreign.values[output].uses) {
      if (use.node.exists()) found.push_back(use.node);
    }
  }
  return found;
}

std::vector<ForeignNode> Placement::sources(ForeignNode node) const {
  std::vector<ForeignNode> found;
  for (const ForeignValue input : foreign.nodes[node].inputs) {
    if (!input.exists() || foreign.values[input].constant) continue;
    for (const ForeignNode producer : foreign.values[input].producers) found.push_back(producer);
  }
  return found;
}

ForeignNode Placement::first_with_operator_of(ForeignNode node, const std::vector<ForeignNode>& nodes) const {
  for (const ForeignNode other : nodes) {
    if (!placed(other)) continue;
    for (const UnitIndex unit : matches[other].units) {
      const std::vector<std::uint16_t>& classes = reference.classes_of_unit[unit];
      if (std::ranges::find(classes, foreign.nodes[node].op_class) != classes.end()) return other;
    }
  }
  return {};
}

void Placement::place(ForeignNode node, std::vector<UnitIndex> units, Confidence confidence, MatchRule rule) {
  const ScopeIndex scope = scope_of(units);
  place_in(node, scope, std::move(units), confidence, rule);
}

void Placement::place_in(ForeignNode node, ScopeIndex scope, std::vector<UnitIndex> units, Confidence confidence,
                         MatchRule rule) {
  sort_unique(units);
  NodeMatch& match = matches[node];
  match.scope = scope;
  match.units = std::move(units);
  match.confidence =
      !match.scope.exists() ? Confidence::unattributed : std::max(confidence, max_confidence(match.units));
  match.rule = rule;
}

void Placement::place_inside(ForeignNode node, ScopeIndex scope) {
  matches[node] = {
      .scope = std::max(scope, root_scope), .confidence = Confidence::ancestor, .rule = MatchRule::dataflow};
}

void Placement::raise_to_parent(ForeignNode node) {
  NodeMatch& match = matches[node];
  match.units.clear();
  match.shared = false;
  match.scope = std::max(reference.scopes[match.scope].parent, root_scope);
  match.confidence = Confidence::ancestor;
}

Confidence Placement::max_confidence(const std::vector<UnitIndex>& units) const {
  Confidence weakest = Confidence::exact;
  for (const UnitIndex unit : units) {
    if (reference.units[unit].scope.exists()) weakest = std::max(weakest, reference.units[unit].confidence);
  }
  return weakest;
}

}  // namespace whence::match
