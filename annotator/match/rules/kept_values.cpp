// Tools do not rename the values that they keep. So a node corresponds to the reference's node that makes the value of
// the same name, even if the nodes have different names. Node names are weaker evidence: a node keeps its name when it
// takes in another.
#include "annotator/match/rules/rule.h"

namespace whence::match {

void kept_values(const RuleContext& context, EvidenceTable& table) {
  constexpr double by_value = 2.5, by_node = 0.5;
  if (!context.reference.values_keep_names) return;
  const ReferenceStructure& reference = context.reference.structure;
  std::unordered_map<std::string_view, ReferenceNode> makers, nodes;
  for (const ReferenceNode i : reference.nodes.keys()) {
    const auto& node = reference.nodes[i];
    if (context.reference.units_of_node[i].empty()) continue;
    if (!node.name.empty()) nodes.emplace(node.name, i);
    for (const ReferenceValue output : node.outputs) {
      if (output.exists()) makers.emplace(reference.values[output].name, i);
    }
  }
  const ForeignStructure& foreign = context.foreign.structure;
  const auto say = [&](ForeignNode node, const auto& index, std::string_view name, double strength) {
    const auto found = index.find(name);
    if (found == index.end()) return;
    for (const UnitIndex unit : context.reference.units_of_node[found->second]) {
      table[node].push_back({MatchRule::kept_values, unit, {}, strength, name});
    }
  };
  for (const ForeignNode i : foreign.nodes.keys()) {
    for (const ForeignValue output : foreign.nodes[i].outputs) {
      if (output.exists()) say(i, makers, foreign.values[output].name, by_value);
    }
    if (!foreign.nodes[i].name.empty()) say(i, nodes, foreign.nodes[i].name, by_node);
  }
}

}  // namespace whence::match
