#include "annotator/match/correspondence.h"

namespace whence::match {

Correspondence::Correspondence(const ForeignStructure& foreign, const Reference& reference)
    : foreign_(foreign),
      reference_(reference),
      node_partner_(foreign.nodes.size()),
      foreign_node_(reference.structure.nodes.size()),
      value_partner_(foreign.values.size()),
      foreign_value_(reference.structure.values.size()),
      certain_pair_(foreign.nodes.size(), false),
      certain_scope_(foreign.nodes.size(), false),
      guessed_(foreign.nodes.size(), false),
      certain_value_(foreign.values.size(), false),
      node_tie_scope_(foreign.nodes.size()),
      value_tie_scope_(foreign.values.size()) {}

const std::vector<UnitIndex>& Correspondence::joint_units(ForeignNode node) const {
  static const std::vector<UnitIndex> none;
  const auto found = joint_units_.find(node);
  return found == joint_units_.end() ? none : found->second;
}

void Correspondence::pair(ForeignNode node, ReferenceNode partner, bool certain, ScopeIndex tie_scope) {
  node_partner_[node] = partner;
  foreign_node_[partner] = node;
  certain_pair_[node] = certain;
  node_tie_scope_[node] = tie_scope;
}

bool Correspondence::pair(ForeignValue value, ReferenceValue partner, bool certain, ScopeIndex tie_scope) {
  const bool is_new = !value_partner_[value].exists();
  if (is_new) {
    value_partner_[value] = partner;
    certain_value_[value] = certain;
    value_tie_scope_[value] = tie_scope;
  }
  if (!foreign_value_[partner].exists()) foreign_value_[partner] = value;
  return is_new;
}

}  // namespace whence::match
