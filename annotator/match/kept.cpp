// Rearrangements and constants whose result kept its name are what they were. A rearrangement that also reads a value
// of old name does all that lay between the two: tools merge Reshapes that follow each other.
#include <algorithm>
#include <unordered_map>

#include "annotator/match/placement.h"

namespace whence::match {

namespace {

class Kept {
 public:
  explicit Kept(Placement& placement)
      : placement_(placement), f_(placement.foreign), r_(placement.reference.structure) {
    for (std::size_t i = 0; i < r_.values.size(); ++i) {
      if (!r_.values[i].name.empty()) by_name_.emplace(r_.values[i].name, static_cast<std::int32_t>(i));
    }
  }

  void place(std::int32_t node) {
    const StructureNode& ours = f_.nodes[node];
    if (ours.outputs.empty() || ours.outputs[0] < 0) return;
    const std::int32_t result = known(ours.outputs[0]);
    if (result < 0 || r_.values[result].producers.empty()) return;
    const std::int32_t maker = r_.values[result].producers.front();
    const StructureNode& theirs = r_.nodes[maker];
    const bool rearranged = ours.kind == NodeKind::transparent && theirs.kind == NodeKind::transparent;
    if (ours.op_type != theirs.op_type && !rearranged) return;
    std::vector<std::int32_t> units = placement_.reference.units_of_node[maker];
    if (rearranged && ours.op_type == theirs.op_type) add_merged(ours, theirs, units);
    placement_.place(node, std::move(units), origin::Confidence::matched, MatchRule::kept_values);
  }

 private:
  std::int32_t known(std::int32_t value) const {
    const auto found = by_name_.find(f_.values[value].name);
    return found == by_name_.end() ? -1 : found->second;
  }

  // Nodes of the same operator straight before, up to the value that the foreign node reads.
  void add_merged(const StructureNode& ours, const StructureNode& theirs, std::vector<std::int32_t>& units) const {
    if (ours.inputs.empty() || theirs.inputs.empty() || ours.inputs[0] < 0) return;
    const std::int32_t from = known(ours.inputs[0]);
    if (from < 0) return;
    std::vector<std::int32_t> between;
    for (std::int32_t at = theirs.inputs[0]; at >= 0 && at != from;) {
      if (r_.values[at].producers.empty()) return;
      const std::int32_t maker = r_.values[at].producers.front();
      const StructureNode& node = r_.nodes[maker];
      if (node.op_type != theirs.op_type || node.inputs.empty()) return;
      const auto& more = placement_.reference.units_of_node[maker];
      between.insert(between.end(), more.begin(), more.end());
      at = node.inputs[0];
    }
    units.insert(units.end(), between.begin(), between.end());
  }

  Placement& placement_;
  const Structure& f_;
  const Structure& r_;
  std::unordered_map<std::string_view, std::int32_t> by_name_;
};

}  // namespace

void place_kept(Placement& placement) {
  if (!placement.reference.values_keep_names) return;
  Kept kept(placement);
  for (const std::int32_t node : placement.foreign.order) {
    if (!placement.placed(node) && placement.foreign.nodes[node].kind != NodeKind::heavy) kept.place(node);
  }
}

}  // namespace whence::match
