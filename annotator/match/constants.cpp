// Nodes that depend on no input: a lookup at known positions, a weight transposed at run time. Those that feed
// corresponding nodes correspond as well, operand by operand; those that read a parameter which one unit alone reads
// belong to it.
#include <algorithm>

#include "annotator/match/placement.h"

namespace whence {
namespace {

class Constants {
 public:
  Constants(Placement& placement, const EvidenceTable& evidence)
      : placement_(placement),
        f_(placement.foreign),
        r_(placement.reference.structure),
        evidence_(evidence),
        kinds_of_unit_(placement.reference.units.size()) {
    for (std::size_t i = 0; i < r_.nodes.size(); ++i) {
      if (r_.nodes[i].kind != NodeKind::constant) continue;
      for (const std::int32_t unit : placement.reference.units_of_node[i]) {
        kinds_of_unit_[unit].push_back(r_.nodes[i].op_class);
      }
    }
  }

  void pair_operands(std::int32_t f, std::int32_t r, int depth) {
    for (const std::int32_t input : f_.nodes[f].inputs) {
      const std::int32_t mine = maker(f_, input);
      if (mine < 0 || placement_.placed(mine)) continue;
      for (const std::int32_t other : r_.nodes[r].inputs) {
        const std::int32_t theirs = maker(r_, other);
        if (theirs < 0 || f_.nodes[mine].op_class != r_.nodes[theirs].op_class) continue;
        placement_.place(mine, placement_.reference.units_of_node[theirs], MatchConfidence::inferred,
                         MatchRule::structure);
        if (depth < 16) pair_operands(mine, theirs, depth + 1);
        break;
      }
    }
  }

  void place_reader_of_parameter(std::int32_t node) {
    std::int32_t unit = -1;
    double strength = 0;
    for (const Evidence& each : evidence_[node]) {
      if (each.unit < 0 || (each.rule != MatchRule::initializers && each.rule != MatchRule::digests)) continue;
      const auto& kinds = kinds_of_unit_[each.unit];
      if (std::find(kinds.begin(), kinds.end(), f_.nodes[node].op_class) == kinds.end()) continue;
      if (each.strength == strength && each.unit != unit) unit = -1;
      if (each.strength > strength) {
        strength = each.strength;
        unit = each.unit;
      }
    }
    if (unit >= 0) placement_.place(node, {unit}, MatchConfidence::matched, MatchRule::digests);
  }

 private:
  // The constant node behind an operand; -1 for initializers and everything computed from inputs.
  static std::int32_t maker(const Structure& s, std::int32_t value) {
    if (value < 0 || !s.values[value].constant || s.values[value].producers.empty()) return -1;
    const std::int32_t node = s.values[value].producers.front();
    return s.nodes[node].kind == NodeKind::constant ? node : -1;
  }

  Placement& placement_;
  const Structure& f_;
  const Structure& r_;
  const EvidenceTable& evidence_;
  std::vector<std::vector<std::uint16_t>> kinds_of_unit_;
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

}  // namespace whence
