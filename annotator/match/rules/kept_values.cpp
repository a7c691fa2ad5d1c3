// Tools do not rename the values that they keep. So a node corresponds to the reference's node that computes the value
// with the same name, even if the nodes have different names. Names of nodes are weaker evidence: a node keeps its name
// if it absorbs another.
#include "annotator/match/rules/rule.h"

namespace whence::match {

void kept_values(const RuleContext& context, EvidenceTable& table) {
  constexpr double by_value = 2.5, by_node = 0.5;
  if (!context.reference.values_keep_names) return;
  const ForeignStructure& foreign = context.foreign.structure;
  const auto add = [&](ForeignNode node, ReferenceNode kept, std::string_view name, double strength) {
    if (!kept.exists()) return;
    for (const UnitIndex unit : context.reference.units_of_node[kept]) {
      table[node].push_back({MatchRule::kept_values, unit, {}, strength, name});
    }
  };
  for (const ForeignNode i : foreign.nodes.keys()) {
    for (const ForeignValue output : foreign.nodes[i].outputs) {
      if (output.exists()) add(i, context.same_names.maker(output), foreign.values[output].name, by_value);
    }
    add(i, context.same_names.node(i), foreign.nodes[i].name, by_node);
  }
}

}  // namespace whence::match
