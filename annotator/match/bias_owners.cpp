#include "annotator/match/bias_owners.h"

#include "annotator/match/op_class.h"

namespace whence::match {

void copy_bias_evidence(const ForeignStructure& structure, EvidenceTable& evidence) {
  for (const ForeignNode i : structure.nodes.keys()) {
    const auto& node = structure.nodes[i];
    if (node.kind != NodeKind::transparent || node.op_type != "Add" || node.outputs.empty()) continue;
    for (const ForeignNode product : structure.makers(structure.loose(node.outputs[0]))) {
      if (!is_product(structure.nodes[product].op_class)) continue;
      for (const Evidence& each : evidence[i]) {
        if (is_of_parameter(each.rule)) evidence[product].push_back(each);
      }
    }
  }
}

void apply_bias_owners(Placement& placement, const EvidenceTable& evidence) {
  constexpr double clear_strength = 1.8;
  const auto& [f, reference, pairs, matches] = placement;
  for (const ForeignNode i : f.nodes.keys()) {
    const NodeMatch& match = matches[i];
    if (f.nodes[i].op_type != "Add" || match.rule != MatchRule::layout || !match.scope.exists()) continue;
    for (const Evidence& each : evidence[i]) {
      if (!is_of_parameter(each.rule) || !each.unit.exists() || each.strength < clear_strength) continue;
      if (reference.scopes.within(reference.units[each.unit].scope, match.scope)) break;
      placement.place(i, {each.unit}, origin::Confidence::matched, each.rule);
      break;
    }
  }
}

}  // namespace whence::match
