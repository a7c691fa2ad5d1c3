// Names that torch.export gives to its nodes, and the dynamo exporter to nodes and values: `node_linear_3`, `linear_3`.
// They number operators in order, and exports of one model may have different orders, for instance of two projections
// of one input. So these names are not seeds, and only break ties (Likeness::of()).
#include "annotator/match/rules/rule.h"

namespace whence::match {

void fx_node_names(const RuleContext& context, EvidenceTable& table) {
  constexpr double strength = 0.3;
  constexpr std::string_view prefix = "node_";
  const ForeignStructure& structure = context.foreign.structure;
  context.each_node([&](ForeignNode i) {
    const auto& node = structure.nodes[i];
    const auto add = [&](std::string_view name) {
      const UnitIndex unit = context.names.unit_named(name);
      if (unit.exists()) table[i].push_back({MatchRule::fx_names, unit, {}, strength, name});
      return unit.exists();
    };
    if (node.name.starts_with(prefix) && add(node.name.substr(prefix.size()))) return;
    for (const ForeignValue output : node.outputs) {
      if (output.exists() && add(structure.values[output].name)) break;
    }
  });
}

}  // namespace whence::match
