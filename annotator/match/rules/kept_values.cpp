// Values that a tool left in place keep their names; so the node that makes one does what the reference's node of that
// result did, whatever it is called itself. Node names are weaker: a node that takes in another keeps its own.
#include "annotator/match/rules/rule.h"

namespace whence::match {

void kept_values(const RuleContext& context, EvidenceTable& table) {
  constexpr double by_value = 2.5, by_node = 0.5;
  if (!context.reference.values_keep_names) return;
  const Structure& theirs = context.reference.structure;
  std::unordered_map<std::string_view, std::int32_t> makers, nodes;
  for (std::size_t i = 0; i < theirs.nodes.size(); ++i) {
    const StructureNode& node = theirs.nodes[i];
    if (context.reference.units_of_node[i].empty()) continue;
    if (!node.name.empty()) nodes.emplace(node.name, static_cast<std::int32_t>(i));
    for (const std::int32_t output : node.outputs) {
      if (output >= 0) makers.emplace(theirs.values[output].name, static_cast<std::int32_t>(i));
    }
  }
  const Structure& ours = context.foreign.structure;
  const auto say = [&](std::size_t node, const auto& index, std::string_view name, double strength) {
    const auto found = index.find(name);
    if (found == index.end()) return;
    for (const std::int32_t unit : context.reference.units_of_node[found->second]) {
      table[node].push_back({MatchRule::kept_values, unit, -1, strength, name});
    }
  };
  for (std::size_t i = 0; i < ours.nodes.size(); ++i) {
    for (const std::int32_t output : ours.nodes[i].outputs) {
      if (output >= 0) say(i, makers, ours.values[output].name, by_value);
    }
    if (!ours.nodes[i].name.empty()) say(i, nodes, ours.nodes[i].name, by_node);
  }
}

}  // namespace whence::match
