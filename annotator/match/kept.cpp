// Places rearrangements and constants whose result kept its name: they are the node that made the value before. If a
// rearrangement also reads a value that kept its name, it stands for all nodes that were between the two values: tools
// merge Reshapes that follow each other.
#include <algorithm>
#include <unordered_map>

#include "annotator/match/placement.h"

namespace whence::match {

namespace {

class Kept {
 public:
  explicit Kept(Placement& placement)
      : placement_(placement), f_(placement.foreign), r_(placement.reference.structure) {
    for (const ReferenceValue i : r_.values.keys()) {
      if (!r_.values[i].name.empty()) by_name_.emplace(r_.values[i].name, i);
    }
  }

  void place(ForeignNode node) {
    const auto& f_node = f_.nodes[node];
    if (f_node.outputs.empty() || !f_node.outputs[0].exists()) return;
    const ReferenceValue result = known(f_node.outputs[0]);
    if (!result.exists() || r_.values[result].producers.empty()) return;
    const ReferenceNode maker = r_.values[result].producers.front();
    const auto& r_node = r_.nodes[maker];
    const bool rearranged = f_node.kind == NodeKind::transparent && r_node.kind == NodeKind::transparent;
    if (f_node.op_type != r_node.op_type && !rearranged) return;
    std::vector<UnitIndex> units = placement_.reference.units_of_node[maker];
    if (rearranged && f_node.op_type == r_node.op_type) add_merged(f_node, r_node, units);
    placement_.place(node, std::move(units), origin::Confidence::matched, MatchRule::kept_values);
  }

 private:
  ReferenceValue known(ForeignValue value) const {
    const auto found = by_name_.find(f_.values[value].name);
    return found == by_name_.end() ? ReferenceValue() : found->second;
  }

  // Nodes of the same operator straight before, up to the value that the foreign node reads.
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
  std::unordered_map<std::string_view, ReferenceValue> by_name_;
};

}  // namespace

void place_kept(Placement& placement) {
  if (!placement.reference.values_keep_names) return;
  Kept kept(placement);
  for (const ForeignNode node : placement.foreign.order) {
    if (!placement.placed(node) && placement.foreign.nodes[node].kind != NodeKind::heavy) kept.place(node);
  }
}

}  // namespace whence::match
