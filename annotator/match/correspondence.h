// Correspondence: which nodes and values of a foreign file correspond to which nodes and values of the reference, and
// how certain each pair is. Growth (growth.h) finds the pairs; placement only reads them.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "annotator/match/reference.h"
#include "annotator/match/structure.h"

namespace whence::match {

class Correspondence {
 public:
  // Without pairs. Both arguments must outlive this object.
  Correspondence(const ForeignStructure& foreign, const Reference& reference);

  const ForeignStructure& foreign() const { return foreign_; }
  const Reference& reference() const { return reference_; }

  ReferenceNode partner(ForeignNode node) const { return node_partner_[node]; }
  ForeignNode partner(ReferenceNode node) const { return foreign_node_[node]; }
  ReferenceValue partner(ForeignValue loose) const { return value_partner_[loose]; }
  ForeignValue partner(ReferenceValue loose) const { return foreign_value_[loose]; }
  // Returns the units of a node that does the work of several nodes of the reference; empty for all other nodes.
  const std::vector<UnitIndex>& joint_units(ForeignNode node) const;

  // Returns true if the pair does not depend on a broken tie: no other pair was as good, and its support does not
  // follow from a broken tie.
  bool is_certain_pair(ForeignNode node) const { return certain_pair_[node]; }
  // Returns true if the node's scope is certain: the pair is, or all pairs that were as good are of the same module.
  bool is_certain(ForeignNode node) const { return certain_pair_[node] || certain_scope_[node]; }
  bool is_certain(ForeignValue value) const { return value.exists() && certain_value_[value]; }
  // Returns the scope around all nodes among which a broken tie chose the partner, or the pair that led to it; none if
  // the node is certain, or if all these nodes are of one scope.
  ScopeIndex tie_scope(ForeignNode node) const { return is_certain(node) ? ScopeIndex() : node_tie_scope_[node]; }
  ScopeIndex tie_scope(ForeignValue value) const { return value_tie_scope_[value]; }
  // Returns true if a broken tie chose the partner and an equal one was left over: in a part of a model, or if a tool
  // merged twins, the order of execution does not distinguish them.
  bool is_guessed(ForeignNode node) const { return guessed_[node]; }

  // The remaining functions are for growth.

  void pair(ForeignNode node, ReferenceNode partner, bool certain, ScopeIndex tie_scope);
  // Does not change the partner of a foreign value that has one. Returns true if it had none.
  bool pair(ForeignValue value, ReferenceValue partner, bool certain, ScopeIndex tie_scope);
  void set_joint_units(ForeignNode node, std::vector<UnitIndex> units) { joint_units_[node] = std::move(units); }
  void confirm_pair(ForeignNode node) { certain_pair_[node] = true; }
  void confirm_value(ForeignValue value) { certain_value_[value] = true; }
  void set_certain_scope(ForeignNode node, bool certain) { certain_scope_[node] = certain; }
  void mark_guessed(ForeignNode node) { guessed_[node] = true; }

 private:
  const ForeignStructure& foreign_;
  const Reference& reference_;
  IndexedVector<ForeignNode, ReferenceNode> node_partner_;
  IndexedVector<ReferenceNode, ForeignNode> foreign_node_;
  IndexedVector<ForeignValue, ReferenceValue> value_partner_;
  IndexedVector<ReferenceValue, ForeignValue> foreign_value_;  // the first of several
  IndexedVector<ForeignNode, bool> certain_pair_, certain_scope_, guessed_;
  IndexedVector<ForeignValue, bool> certain_value_;
  IndexedVector<ForeignNode, ScopeIndex> node_tie_scope_;
  IndexedVector<ForeignValue, ScopeIndex> value_tie_scope_;
  std::unordered_map<ForeignNode, std::vector<UnitIndex>> joint_units_;
};

}  // namespace whence::match
