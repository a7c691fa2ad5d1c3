// Gives all modules to a node that represents equal computations of several modules: exporters merge such nodes.
//
//   recording   x -> softmax (of a) -> a.proj,  x -> softmax (of b) -> b.proj
//   file        x -> Softmax -> a.proj and b.proj                                  of a and b, in their common ancestor
//
// Condition: the reference has another node with the same computation that no node of the file represents, and a reader
// of that node's result reads the merged node's result in the file.
#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "annotator/match/placement.h"
#include "schema/flat_map.h"
#include "schema/sort_unique.h"

namespace whence::match {

using origin::Confidence;

namespace {

class Twins {
 public:
  explicit Twins(Placement& placement)
      : placement_(placement),
        f_(placement.foreign),
        reference_(placement.reference),
        r_(placement.reference.structure),
        is_met_(placement.reference.structure.nodes.size(), false) {
    for (const ForeignNode node : f_.nodes.keys()) {
      if (const ReferenceNode partner = placement.pairs.partner(node); partner.exists()) {
        is_met_[partner] = true;
        continue;
      }
      // A node without a partner may represent any node of its operations that has the same operator.
      for (const UnitIndex unit : placement.matches[node].units) operators_of_[unit].push_back(f_.nodes[node].op_type);
    }
  }

  void join() {
    if (std::ranges::none_of(r_.nodes.keys(), [&](ReferenceNode node) { return may_be_merged(node); })) return;
    find_classes();
    for (auto node = f_.order.rbegin(); node != f_.order.rend(); ++node) join(*node);  // readers first
  }

 private:
  bool may_be_merged(ReferenceNode node) const {
    const std::vector<UnitIndex>& units = reference_.units_of_node[node];
    return !is_met_[node] && !units.empty() && std::ranges::all_of(units, [&](UnitIndex unit) {
      const auto met = operators_of_.find(unit);
      return reference_.units[unit].scope.exists() &&
             (met == operators_of_.end() ||
              std::ranges::find(met->second, r_.nodes[node].op_type) == met->second.end());
    });
  }

  // Numbers the values of the reference. Values with equal computations have one number.
  void find_classes() {
    FlatMap<std::string, std::int32_t> classes;
    class_of_value_.assign(r_.values.size(), -1);
    class_of_node_.assign(r_.nodes.size(), -1);
    const auto class_of = [&](ReferenceValue value) {
      if (!value.exists()) return std::int32_t{-1};
      std::int32_t& own = class_of_value_[value];
      if (own < 0) own = next_++;
      return own;
    };
    for (const ReferenceNode i : r_.order) {
      const auto& node = r_.nodes[i];
      if (node.holds_bodies || reference_.units_of_node[i].empty()) continue;
      std::string key(node.op_type);
      key += '/';
      key += node.domain;
      for (const ReferenceValue input : node.inputs) key += "," + std::to_string(class_of(input));
      key += "|" + std::to_string(node.attributes);
      const auto [found, is_new] = classes.try_emplace(std::move(key), static_cast<std::int32_t>(members_.size()));
      if (is_new) members_.emplace_back();
      auto& members = members_[static_cast<std::size_t>(found->second)];
      class_of_node_[i] = found->second;
      for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        if (!node.outputs[k].exists() || class_of_value_[node.outputs[k]] >= 0) continue;
        const bool alike = !members.empty() && k < r_.nodes[members.front()].outputs.size();
        class_of_value_[node.outputs[k]] =
            alike ? class_of(r_.nodes[members.front()].outputs[k]) : class_of(node.outputs[k]);
      }
      members.push_back(i);
      for (const UnitIndex unit : reference_.units_of_node[i]) nodes_of_unit_[unit].push_back(i);
    }
  }

  void join(ForeignNode node) {
    NodeMatch& match = placement_.matches[node];
    const bool guessed = placement_.pairs.is_guessed(node) && match.rule == MatchRule::structure;
    if (match.shared || (!guessed && (match.units.empty() || match.confidence >= Confidence::ancestor))) return;
    std::vector<UnitIndex> units = match.units;
    if (units.empty()) units = reference_.units_of_node[placement_.pairs.partner(node)];
    const std::size_t before = units.size();
    for (const ReferenceNode partner : partners(node, units)) {
      for (const ReferenceNode twin : members_[static_cast<std::size_t>(class_of_node_[partner])]) {
        if (!is_of_other_modules(twin, units) || !is_read_like(node, twin)) continue;
        const auto& more = reference_.units_of_node[twin];
        units.insert(units.end(), more.begin(), more.end());
      }
    }
    sort_unique(units);
    if (units.size() <= before) return;
    // A tie between only the twins is resolved: the node represents all of them.
    if (guessed && !reference_.scopes.within(placement_.pairs.tie_scope(node), placement_.scope_of(units))) return;
    const MatchRule rule = match.rule;
    placement_.place(node, std::move(units), guessed ? Confidence::matched : match.confidence, rule);
  }

  // Returns the nodes of the reference that the node represents: its partner, or the nodes of its units, those with the
  // same operator if there are any.
  std::vector<ReferenceNode> partners(ForeignNode node, const std::vector<UnitIndex>& units) const {
    if (const ReferenceNode partner = placement_.pairs.partner(node); partner.exists()) {
      return class_of_node_[partner] >= 0 ? std::vector{partner} : std::vector<ReferenceNode>();
    }
    std::vector<ReferenceNode> all, of_operator;
    for (const UnitIndex unit : units) {
      const auto nodes = nodes_of_unit_.find(unit);
      if (nodes == nodes_of_unit_.end()) continue;
      for (const ReferenceNode each : nodes->second) {
        if (class_of_node_[each] < 0) continue;
        all.push_back(each);
        if (r_.nodes[each].op_type == f_.nodes[node].op_type) of_operator.push_back(each);
      }
    }
    return of_operator.empty() ? all : of_operator;
  }

  // Returns false for another call of one of the modules: other steps distinguish calls.
  bool is_of_other_modules(ReferenceNode twin, const std::vector<UnitIndex>& units) const {
    return may_be_merged(twin) && std::ranges::all_of(reference_.units_of_node[twin], [&](UnitIndex unit) {
             return std::ranges::none_of(units, [&](UnitIndex own) {
               const ScopeIndex scope = reference_.units[own].scope;
               return own == unit || !scope.exists() ||
                      reference_.scopes[scope].path == reference_.scopes[reference_.units[unit].scope].path;
             });
           });
  }

  // Returns true if a reader of the node represents an operation that reads the twin's result.
  bool is_read_like(ForeignNode node, ReferenceNode twin) const {
    const auto readers = placement_.readers(node);
    for (const ReferenceValue output : r_.nodes[twin].outputs) {
      if (!output.exists()) continue;
      for (const auto& use : r_.values[output].uses) {
        if (!use.node.exists()) continue;
        for (const UnitIndex unit : reference_.units_of_node[use.node]) {
          if (std::ranges::any_of(readers, [&](ForeignNode reader) {
                const auto& units = placement_.matches[reader].units;
                return std::ranges::find(units, unit) != units.end();
              })) {
            return true;
          }
        }
      }
    }
    return false;
  }

  Placement& placement_;
  const ForeignStructure& f_;
  const Reference& reference_;
  const ReferenceStructure& r_;
  IndexedVector<ReferenceNode, bool> is_met_;  // is the partner of a node of the file
  // Operators of the file's nodes without a partner, by operation.
  std::unordered_map<UnitIndex, std::vector<std::string_view>> operators_of_;
  IndexedVector<ReferenceValue, std::int32_t> class_of_value_;
  IndexedVector<ReferenceNode, std::int32_t> class_of_node_;
  std::vector<std::vector<ReferenceNode>> members_;  // by class of nodes
  std::unordered_map<UnitIndex, std::vector<ReferenceNode>> nodes_of_unit_;
  std::int32_t next_ = 0;
};

}  // namespace

void join_twins(Placement& placement) { Twins(placement).join(); }

}  // namespace whence::match
