// Places rearrangements and constants with a result that kept its name: they represent the node that computed this
// value before the tool. If a rearrangement also reads a value that kept its name, it represents all earlier nodes
// between the two values: tools merge consecutive Reshapes.
#include <algorithm>

#include "annotator/match/placement.h"

namespace whence::match {

namespace {

class Kept {
 public:
  Kept(Placement& placement, const SameNames& names)
      : placement_(placement), f_(placement.foreign), r_(placement.reference.structure), names_(names) {}

  void place(ForeignNode node) {
    const auto& f_node = f_.nodes[node];
    if (f_node.outputs.empty() || !f_node.outputs[0].exists()) return;
    const ReferenceValue result = known(f_node.outputs[0]);
    if (!result.exists() || r_.values[result].producers.empty()) return;
    const ReferenceNode named = r_.values[result].producers.front();
    const bool rearranged = f_node.kind == NodeKind::transparent && r_.nodes[named].kind == NodeKind::transparent;
    if (f_node.op_type != r_.nodes[named].op_type && !rearranged) return;
    const ReferenceNode maker = same_operator(f_node, named);
    if (!maker.exists()) {
      placement_.place(node, with_fused(f_node, placement_.reference.units_of_node[named]),
                       origin::Confidence::inferred, MatchRule::kept_values);
      return;
    }
    const auto& r_node = r_.nodes[maker];
    std::vector<UnitIndex> units = placement_.reference.units_of_node[maker];
    if (rearranged) add_merged(f_node, r_node, units);
    placement_.place(node, std::move(units), origin::Confidence::matched, MatchRule::kept_values);
  }

 private:
  ReferenceValue known(ForeignValue value) const { return names_.value(value); }

  // Returns all units of the product before a rearrangement if they include those of the name, else the latter. A tool
  // that folds the next node into a product and inserts a Reshape after it may give the Reshape the product's old name.
  std::vector<UnitIndex> with_fused(const StructureNode<Side::foreign>& f_node,
                                    const std::vector<UnitIndex>& named) const {
    if (f_node.kind != NodeKind::transparent || f_node.inputs.empty() || !f_node.inputs[0].exists()) return named;
    for (const ForeignNode maker : f_.makers(f_.loose(f_node.inputs[0]))) {
      const std::vector<UnitIndex>& units = placement_.matches[maker].units;
      if (f_.nodes[maker].kind == NodeKind::heavy && std::ranges::includes(units, named)) return units;
    }
    return named;
  }

  // Returns `named` or the nearest rearrangement before it that has the same operator, after the foreign node's input;
  // none if there is none. A tool that removes a Cast without effect gives the Cast's name to the Reshape before it.
  ReferenceNode same_operator(const StructureNode<Side::foreign>& f_node, ReferenceNode named) const {
    const ReferenceValue from =
        f_node.inputs.empty() || !f_node.inputs[0].exists() ? ReferenceValue() : known(f_node.inputs[0]);
    for (ReferenceNode at = named; at.exists() && r_.nodes[at].kind == NodeKind::transparent;) {
      const auto& node = r_.nodes[at];
      if (node.op_type == f_node.op_type) return at;
      if (node.inputs.empty() || !node.inputs[0].exists() || node.inputs[0] == from) return {};
      const auto& producers = r_.values[node.inputs[0]].producers;
      at = producers.empty() ? ReferenceNode() : producers.front();
    }
    return r_.nodes[named].op_type == f_node.op_type ? named : ReferenceNode();
  }

  // Adds the units of the nodes directly before with the same operator, up to the value that the foreign node reads.
  void add_merged(const StructureNode<Side::foreign>& f_node, const StructureNode<Side::reference>& r_node,
                  std::vector<UnitIndex>& units) const {
    if (f_node.inputs.empty() || r_node.inputs.empty() || !f_node.inputs[0].exists()) return;
    const ReferenceValue from = known(f_node.inputs[0]);
    if (!from.exists()) return;
    std::vector<UnitIndex> between;
    for (ReferenceValue at = r_node.inputs[0]; at.exists() && at != from;) {
      if (r_.values[at].producers.empty()) return;
      const ReferenceNode maker = r_.values[at].producers.front();
      const auto& node = r_.nodes[maker];
      if (node.op_type != r_node.op_type || node.inputs.empty()) return;
      const auto& more = placement_.reference.units_of_node[maker];
      between.insert(between.end(), more.begin(), more.end());
      at = node.inputs[0];
    }
    units.insert(units.end(), between.begin(), between.end());
  }

  Placement& placement_;
  const ForeignStructure& f_;
  const ReferenceStructure& r_;
  const SameNames& names_;
};

}  // namespace

void place_kept(Placement& placement, const SameNames& names) {
  if (!placement.reference.values_keep_names) return;
  Kept kept(placement, names);
  for (const ForeignNode node : placement.foreign.order) {
    if (!placement.settled(node) && placement.foreign.nodes[node].kind != NodeKind::heavy) kept.place(node);
  }
}

}  // namespace whence::match
