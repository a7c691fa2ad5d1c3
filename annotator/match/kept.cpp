// Rearrangements and constants whose result kept its name, and which are the same operator as before: what they were.
#include "annotator/match/placement.h"

namespace whence {

void place_kept(Placement& placement, const EvidenceTable& evidence) {
  constexpr double of_value = 2;
  if (!placement.reference.values_keep_names) return;
  const Structure& theirs = placement.reference.structure;
  std::vector<std::string_view> op_of_unit(placement.reference.units.size());
  for (const StructureNode& node : theirs.nodes) {
    if (node.source >= 0) op_of_unit[node.source] = node.op_type;
  }
  for (std::size_t i = 0; i < evidence.size(); ++i) {
    const auto node = static_cast<std::int32_t>(i);
    if (placement.placed(node) || placement.foreign.nodes[i].kind == NodeKind::heavy) continue;
    for (const Evidence& each : evidence[i]) {
      if (each.rule != MatchRule::kept_values || each.strength < of_value || each.unit < 0) continue;
      if (op_of_unit[each.unit] != placement.foreign.nodes[i].op_type) continue;
      placement.place(node, {each.unit}, MatchConfidence::matched, MatchRule::kept_values);
      break;
    }
  }
}

}  // namespace whence
