#include "annotator/match/joint_products.h"

#include <algorithm>

#include "annotator/match/op_class.h"

namespace whence::match {
namespace {

void add_once(std::vector<UnitIndex>& units, UnitIndex unit) {
  if (std::find(units.begin(), units.end(), unit) == units.end()) units.push_back(unit);
}

}  // namespace

void JointProducts::link() {
  for (const ForeignNode split : f_.order) {
    const ForeignNode product = product_before(split);
    if (!product.exists()) continue;
    const ForeignValue input = f_.data_inputs(product)[0];
    if (!input.exists() || !pairs_.partner(input).exists()) continue;
    std::vector<UnitIndex> units = units_by_evidence(product, pairs_.partner(input));
    const bool ordered = units.size() > 1;
    if (!ordered) units = units_by_execution(product, pairs_.partner(input));
    if (units.size() != f_.nodes[split].outputs.size()) continue;
    if (!ordered) certainty_.note_broken_tie();
    links_.set_certainty(ordered, {});
    link_parts(split, product, units);
    links_.set_certainty(true, {});
  }
}

// Returns the product whose result only this Split reads; none if there is none, or if one of the two has a partner.
ForeignNode JointProducts::product_before(ForeignNode split) const {
  const auto& node = f_.nodes[split];
  if (node.op_type != "Split" || node.outputs.size() < 2 || pairs_.partner(split).exists()) return {};
  const ForeignValue input = f_.data_inputs(split)[0];
  if (!input.exists() || f_.makers(input).size() != 1 || f_.heavy_uses(input).size() != 1) return {};
  const ForeignNode product = f_.makers(input)[0];
  return is_product(f_.nodes[product].op_class) && !pairs_.partner(product).exists() ? product : ForeignNode();
}

// Returns the units that read `input` and have a parameter in the product's weight, in the order of the weight's parts.
std::vector<UnitIndex> JointProducts::units_by_evidence(ForeignNode product, ReferenceValue input) const {
  // Calls of one module share its weight, but read other values.
  const auto reads_input = [&](UnitIndex unit) {
    return std::ranges::any_of(r_.heavy_uses(input), [&](const auto& use) {
      const auto& nodes = reference_.nodes_of_unit[unit];
      return use.node.exists() && std::ranges::find(nodes, use.node) != nodes.end();
    });
  };
  std::vector<UnitIndex> units;
  for (const Evidence& evidence : evidence_[product]) {
    if (is_of_content(evidence.rule) && evidence.unit.exists() && reads_input(evidence.unit))
      add_once(units, evidence.unit);
  }
  return units;
}

// Returns the units of all products that read `input` and have no partner, in execution order.
std::vector<UnitIndex> JointProducts::units_by_execution(ForeignNode product, ReferenceValue input) const {
  std::vector<UnitIndex> units;
  for (const auto& use : r_.heavy_uses(input)) {
    if (r_.nodes[use.node].op_class != f_.nodes[product].op_class || use.slot != 0) continue;
    const auto& of_node = reference_.units_of_node[use.node];
    if (of_node.size() == 1 && !pairs_.partner(use.node).exists()) add_once(units, of_node[0]);
  }
  std::sort(units.begin(), units.end());
  return units;
}

void JointProducts::link_parts(ForeignNode split, ForeignNode product, const std::vector<UnitIndex>& units) {
  pairs_.set_joint_units(split, units);
  pairs_.set_joint_units(product, units);
  for (std::size_t i = 0; i < units.size(); ++i) {
    for (const ReferenceNode r : reference_.nodes_of_unit[units[i]]) {
      if (r_.nodes[r].op_class != f_.nodes[product].op_class || r_.nodes[r].outputs.empty()) continue;
      links_.link(f_.loose(f_.nodes[split].outputs[i]), r_.loose(r_.nodes[r].outputs[0]));
      break;
    }
  }
}

}  // namespace whence::match
