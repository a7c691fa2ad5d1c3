// Places nodes that depend on no input: a lookup at known positions, a mask of known size, a weight transposed at run
// time. A node belongs to a unit if only this unit reads the node's parameter. Nodes that compute the operands of
// corresponding nodes correspond as well, operand by operand. If the two sides compute an operand with different
// operators, its nodes get the scope in which the reference computes it, if there is only one.
#include <algorithm>

#include "annotator/match/placement.h"

namespace whence::match {

using origin::Confidence;

namespace {

class Constants {
 public:
  Constants(Placement& placement, const EvidenceTable& evidence)
      : placement_(placement),
        f_(placement.foreign),
        r_(placement.reference.structure),
        evidence_(evidence),
        constants_of_unit_(placement.reference.units.size()) {
    for (const ReferenceNode i : r_.nodes.keys()) {
      if (r_.nodes[i].kind != NodeKind::constant) continue;
      for (const UnitIndex unit : placement.reference.units_of_node[i]) {
        constants_of_unit_[unit].push_back(i);
      }
    }
  }

  void pair_operands(ForeignNode f, ReferenceNode r, int depth) {
    for (std::size_t i = 0; i < f_.nodes[f].inputs.size(); ++i) {
      const ForeignNode operand = maker(f_.nodes[f].inputs[i]);
      if (!operand.exists() || f_.nodes[operand].op_type == "Constant") continue;
      for (const ReferenceNode form : forms_of(r)) {
        if (pair_operand(operand, i, form, depth)) break;
      }
    }
  }

  void place_reader_of_parameter(ForeignNode node) {
    UnitIndex unit;
    double strength = 0;
    for (const Evidence& each : evidence_[node]) {
      if (!each.unit.exists() || !is_of_parameter(each.rule)) continue;
      const auto& known = constants_of_unit_[each.unit];
      if (std::none_of(known.begin(), known.end(),
                       [&](ReferenceNode r) { return r_.nodes[r].op_class == f_.nodes[node].op_class; })) {
        continue;
      }
      if (each.strength == strength && each.unit != unit) unit = {};
      if (each.strength > strength) {
        strength = each.strength;
        unit = each.unit;
      }
    }
    if (!unit.exists()) return;
    constexpr double clear_strength = 1.8;  // one candidate
    placement_.place(node, {unit}, strength < clear_strength ? Confidence::inferred : Confidence::matched,
                     MatchRule::digests);
    for (const ReferenceNode r : constants_of_unit_[unit]) {
      if (r_.nodes[r].op_class == f_.nodes[node].op_class) return pair_operands(node, r, 0);
    }
  }

 private:
  // Returns the node and the nodes that represent the same units in other forms of the reference.
  std::vector<ReferenceNode> forms_of(ReferenceNode r) const {
    std::vector<ReferenceNode> forms = {r};
    const auto& units = placement_.reference.units_of_node[r];
    if (units.empty()) return forms;
    for (const auto* nodes : {&placement_.reference.nodes_of_unit[units.front()], &constants_of_unit_[units.front()]}) {
      for (const ReferenceNode other : *nodes) {
        if (other != r && r_.nodes[other].op_class == r_.nodes[r].op_class && forms.size() < 16) forms.push_back(other);
      }
    }
    return forms;
  }

  // Pairs the node that computes a foreign operand with one that computes an operand of `form`. Returns true if one was
  // found.
  bool pair_operand(ForeignNode node, std::size_t slot, ReferenceNode form, int depth) {
    const auto& operands = r_.nodes[form].inputs;
    ReferenceNode nearest;
    for (std::size_t k = 0; k <= operands.size(); ++k) {  // the same slot first
      const std::size_t j = k == 0 ? slot : k - 1;
      const ReferenceNode counterpart = j < operands.size() ? any_maker(operands[j]) : ReferenceNode();
      if (!counterpart.exists()) continue;
      if (!nearest.exists()) nearest = counterpart;
      if (f_.nodes[node].op_class != r_.nodes[counterpart].op_class) continue;
      if (!placement_.settled(node)) {
        placement_.place(node, placement_.reference.units_of_node[counterpart], Confidence::inferred,
                         MatchRule::structure);
      }
      if (depth < 16) pair_operands(node, counterpart, depth + 1);
      return true;
    }
    if (!nearest.exists() || placement_.settled(node)) return false;
    const std::vector<UnitIndex> units = units_up_to(nearest);
    if (!placement_.one_scope(units)) return false;
    placement_.place(node, units, Confidence::ancestor, MatchRule::dataflow);
    placement_.matches[node].shared = placement_.matches[node].units.size() > 1;
    return true;
  }

  // Returns the units of a constant node and of all nodes before it.
  std::vector<UnitIndex> units_up_to(ReferenceNode r) const {
    constexpr std::size_t max_nodes = 64;
    std::vector<ReferenceNode> nodes = {r};
    std::vector<UnitIndex> units;
    for (std::size_t i = 0; i < nodes.size() && nodes.size() < max_nodes; ++i) {
      const auto& own = placement_.reference.units_of_node[nodes[i]];
      units.insert(units.end(), own.begin(), own.end());
      for (const ReferenceValue input : r_.nodes[nodes[i]].inputs) {
        const ReferenceNode next = any_maker(input);
        if (next.exists() && std::find(nodes.begin(), nodes.end(), next) == nodes.end()) nodes.push_back(next);
      }
    }
    return units;
  }

  // Returns the constant node that computes an operand; none for initializers and values computed from inputs.
  ForeignNode maker(ForeignValue value) const {
    if (!value.exists() || !f_.values[value].constant || f_.values[value].producers.empty()) return {};
    const ForeignNode node = f_.values[value].producers.front();
    return f_.nodes[node].kind == NodeKind::constant ? node : ForeignNode();
  }

  // Returns the node that computes an operand of the reference, also one that computes from sizes: its result may be
  // constant in the foreign file. Returns none for a value that has a partner.
  ReferenceNode any_maker(ReferenceValue value) const {
    if (!value.exists() || r_.values[value].producers.empty()) return {};
    return placement_.pairs.partner(r_.loose(value)).exists() ? ReferenceNode() : r_.values[value].producers.front();
  }

  Placement& placement_;
  const ForeignStructure& f_;
  const ReferenceStructure& r_;
  const EvidenceTable& evidence_;
  IndexedVector<UnitIndex, std::vector<ReferenceNode>> constants_of_unit_;
};

}  // namespace

void place_constants(Placement& placement, const EvidenceTable& evidence) {
  Constants constants(placement, evidence);
  for (const ForeignNode node : placement.foreign.order) {
    if (placement.foreign.nodes[node].kind == NodeKind::constant && !placement.settled(node)) {
      constants.place_reader_of_parameter(node);
    }
  }
  for (const ForeignNode node : placement.foreign.order) {
    if (placement.pairs.partner(node).exists()) constants.pair_operands(node, placement.pairs.partner(node), 0);
  }
}

}  // namespace whence::match
