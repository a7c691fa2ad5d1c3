// Nodes that depend on no input: a lookup at known positions, a mask of known size, a weight transposed at run time.
// One that reads a parameter which a single unit reads belongs to it. Those that feed corresponding nodes correspond as
// well, operand by operand; where the two sides spell an operand differently, it is of the scope that the reference
// computes it in, if that is one.
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
    for (std::size_t i = 0; i < r_.nodes.size(); ++i) {
      if (r_.nodes[i].kind != NodeKind::constant) continue;
      for (const std::int32_t unit : placement.reference.units_of_node[i]) {
        constants_of_unit_[unit].push_back(static_cast<std::int32_t>(i));
      }
    }
  }

  void pair_operands(std::int32_t f, std::int32_t r, int depth) {
    for (std::size_t i = 0; i < f_.nodes[f].inputs.size(); ++i) {
      const std::int32_t mine = maker(f_, f_.nodes[f].inputs[i]);
      if (mine < 0 || f_.nodes[mine].op_type == "Constant") continue;
      for (const std::int32_t form : forms_of(r)) {
        if (pair_operand(mine, i, form, depth)) break;
      }
    }
  }

  void place_reader_of_parameter(std::int32_t node) {
    std::int32_t unit = -1;
    double strength = 0;
    for (const Evidence& each : evidence_[node]) {
      if (each.unit < 0 || (each.rule != MatchRule::initializers && each.rule != MatchRule::digests)) continue;
      const auto& known = constants_of_unit_[each.unit];
      if (std::none_of(known.begin(), known.end(),
                       [&](std::int32_t r) { return r_.nodes[r].op_class == f_.nodes[node].op_class; })) {
        continue;
      }
      if (each.strength == strength && each.unit != unit) unit = -1;
      if (each.strength > strength) {
        strength = each.strength;
        unit = each.unit;
      }
    }
    if (unit < 0) return;
    placement_.place(node, {unit}, Confidence::matched, MatchRule::digests);
    for (const std::int32_t r : constants_of_unit_[unit]) {
      if (r_.nodes[r].op_class == f_.nodes[node].op_class) return pair_operands(node, r, 0);
    }
  }

 private:
  // The nodes of the reference that stand for the same as this one in another form.
  std::vector<std::int32_t> forms_of(std::int32_t r) const {
    std::vector<std::int32_t> forms = {r};
    const auto& units = placement_.reference.units_of_node[r];
    if (units.empty()) return forms;
    for (const auto* nodes : {&placement_.reference.nodes_of_unit[units.front()], &constants_of_unit_[units.front()]}) {
      for (const std::int32_t other : *nodes) {
        if (other != r && r_.nodes[other].op_class == r_.nodes[r].op_class && forms.size() < 16) forms.push_back(other);
      }
    }
    return forms;
  }

  bool pair_operand(std::int32_t mine, std::size_t slot, std::int32_t form, int depth) {
    const auto& operands = r_.nodes[form].inputs;
    std::int32_t near = -1;
    for (std::size_t k = 0; k <= operands.size(); ++k) {  // the same slot first
      const std::size_t j = k == 0 ? slot : k - 1;
      const std::int32_t theirs = j < operands.size() ? any_maker(operands[j]) : -1;
      if (theirs < 0) continue;
      if (near < 0) near = theirs;
      if (f_.nodes[mine].op_class != r_.nodes[theirs].op_class) continue;
      if (!placement_.placed(mine)) {
        placement_.place(mine, placement_.reference.units_of_node[theirs], Confidence::inferred, MatchRule::structure);
      }
      if (depth < 16) pair_operands(mine, theirs, depth + 1);
      return true;
    }
    if (near < 0 || placement_.placed(mine)) return false;
    const std::vector<std::int32_t> units = units_behind(near);
    if (!placement_.one_scope(units)) return false;
    placement_.place(mine, units, Confidence::ancestor, MatchRule::dataflow);
    placement_.matches[mine].shared = placement_.matches[mine].units.size() > 1;
    return true;
  }

  // Units of a constant node and of all that it is computed from.
  std::vector<std::int32_t> units_behind(std::int32_t r) const {
    constexpr std::size_t most = 64;
    std::vector<std::int32_t> nodes = {r}, units;
    for (std::size_t i = 0; i < nodes.size() && nodes.size() < most; ++i) {
      const auto& own = placement_.reference.units_of_node[nodes[i]];
      units.insert(units.end(), own.begin(), own.end());
      for (const std::int32_t input : r_.nodes[nodes[i]].inputs) {
        const std::int32_t next = any_maker(input);
        if (next >= 0 && std::find(nodes.begin(), nodes.end(), next) == nodes.end()) nodes.push_back(next);
      }
    }
    return units;
  }

  // The constant node behind an operand; -1 for initializers and everything computed from inputs.
  static std::int32_t maker(const Structure& s, std::int32_t value) {
    if (value < 0 || !s.values[value].constant || s.values[value].producers.empty()) return -1;
    const std::int32_t node = s.values[value].producers.front();
    return s.nodes[node].kind == NodeKind::constant ? node : -1;
  }

  // The node behind an operand of the reference. One form may compute from sizes what is constant in the foreign file;
  // values that the foreign file has as well are not part of that.
  std::int32_t any_maker(std::int32_t value) const {
    if (value < 0 || r_.values[value].producers.empty()) return -1;
    return placement_.pairs.foreign_value(r_.loose(value)) >= 0 ? -1 : r_.values[value].producers.front();
  }

  Placement& placement_;
  const Structure& f_;
  const Structure& r_;
  const EvidenceTable& evidence_;
  std::vector<std::vector<std::int32_t>> constants_of_unit_;
};

}  // namespace

void place_constants(Placement& placement, const EvidenceTable& evidence) {
  Constants constants(placement, evidence);
  for (const std::int32_t node : placement.foreign.order) {
    if (placement.foreign.nodes[node].kind == NodeKind::constant) constants.place_reader_of_parameter(node);
  }
  for (const std::int32_t node : placement.foreign.order) {
    if (placement.pairs.node(node) >= 0) constants.pair_operands(node, placement.pairs.node(node), 0);
  }
}

}  // namespace whence::match
