// A node that corresponds to one of the reference stands for that node's units, and for those of every computation
// between the values it reads and writes that no other foreign node makes: it took them in.
//
//   reference  a -> MatMul -> Add(residual) -> LayerNormalization -> b
//   foreign    a', r' -> SkipLayerNormalization -> b'                     units: add, layer_norm
#include <algorithm>

#include "annotator/match/placement.h"

namespace whence::match {

using origin::Confidence;

namespace {

constexpr int deepest = 40;  // of a cone, in nodes

class Cone {
 public:
  Cone(const Placement& placement, std::vector<std::int32_t> stops)
      : placement_(placement), r_(placement.reference.structure), stops_(std::move(stops)) {}

  // Adds the units on paths from `value` back to a stop. True when there is one.
  bool reaches(std::int32_t value, int depth) {
    if (std::find(stops_.begin(), stops_.end(), value) != stops_.end()) return true;
    // A value that the foreign file has as well is the work of another node.
    if (placement_.pairs.foreign_value(value) >= 0 && depth > 0) return false;
    if (depth >= deepest || ++visited_ > 4 * deepest) return false;
    bool any = false;
    for (const std::int32_t producer : r_.makers(value)) {
      bool through = false;
      for (const std::int32_t input : r_.data_inputs(r_.nodes[producer])) {
        if (input >= 0) through |= reaches(input, depth + 1);
      }
      if (!through) continue;
      any = true;
      if (pads_vanished && r_.nodes[producer].op_type == "Pad") continue;
      if (r_.has_no_effect(r_.nodes[producer])) continue;
      if (!has_weights && r_.reads_weights(r_.nodes[producer])) continue;
      const auto& found = placement_.reference.units_of_node[producer];
      units.insert(units.end(), found.begin(), found.end());
    }
    return any;
  }

  std::vector<std::int32_t> units;
  bool pads_vanished = false;  // a Pad on the way did nothing and is gone now
  bool has_weights = true;     // of the foreign node: without, it cannot have taken in what scales or shifts by weights

 private:
  const Placement& placement_;
  const Structure& r_;
  std::vector<std::int32_t> stops_;
  int visited_ = 0;
};

std::vector<std::int32_t> taken_in(const Placement& placement, std::int32_t f, std::int32_t r) {
  const Structure& ours = placement.foreign;
  const Structure& theirs = placement.reference.structure;
  // Sizes are the same before and behind much else.
  if (ours.nodes[f].op_type == "Shape" || ours.nodes[f].op_type == "Size") return {};
  std::vector<std::int32_t> stops;
  for (const std::int32_t input : ours.data_inputs(ours.nodes[f])) {
    if (input < 0) continue;
    if (placement.pairs.value(input) < 0) return {};  // what lies before it is not known
    stops.push_back(placement.pairs.value(input));
  }
  std::vector<std::int32_t> units;
  for (const std::int32_t input : theirs.data_inputs(theirs.nodes[r])) {
    if (input < 0 || std::find(stops.begin(), stops.end(), input) != stops.end()) continue;
    Cone cone(placement, stops);
    // A Pad that a convolution takes in changes its padding.
    cone.pads_vanished = ours.nodes[f].padding == theirs.nodes[r].padding;
    cone.has_weights = ours.reads_weights(ours.nodes[f]);
    if (cone.reaches(input, 0)) units.insert(units.end(), cone.units.begin(), cone.units.end());
  }
  // Behind it: when its result corresponds to a later value than the reference node's own.
  if (!ours.nodes[f].outputs.empty() && !theirs.nodes[r].outputs.empty()) {
    const std::int32_t own = theirs.loose(theirs.nodes[r].outputs[0]);
    const std::int32_t result = ours.loose(ours.nodes[f].outputs[0]);
    const std::int32_t later = result < 0 ? -1 : placement.pairs.value(result);
    if (own >= 0 && later >= 0 && later != own) {
      Cone cone(placement, {own});
      if (cone.reaches(later, 0)) units.insert(units.end(), cone.units.begin(), cone.units.end());
    }
  }
  return units;
}

// Vectors that a node adds or multiplies by.
std::ptrdiff_t vectors_read(const Structure& s, std::int32_t node) {
  return std::count_if(s.nodes[node].inputs.begin(), s.nodes[node].inputs.end(), [&](std::int32_t input) {
    const std::int32_t tensor = input < 0 || !s.values[input].constant ? -1 : s.root_tensor(input);
    return tensor >= 0 && s.tensors[tensor].is_vector() && s.tensors[tensor].elements() > 1;
  });
}

// What a neighbour in the foreign file does itself: a reference node with Pad and BatchNormalization folded in may be
// the partner of a Conv that has its Pad beside it.
void leave_to_neighbours(const Placement& placement, std::int32_t f, std::vector<std::int32_t>& units) {
  const Structure& s = placement.foreign;
  const auto leave = [&](std::int32_t neighbour) {
    const std::int32_t partner = placement.pairs.node(neighbour);
    if (partner < 0 || neighbour == f) return;
    const auto& theirs = placement.reference.units_of_node[partner];
    if (theirs.size() != 1 || units.size() < 2) return;
    std::erase(units, theirs.front());
  };
  for (const std::int32_t input : s.data_inputs(s.nodes[f])) {
    if (input < 0) continue;
    for (const std::int32_t maker : s.makers(input)) leave(maker);
  }
  for (const std::int32_t output : s.nodes[f].outputs) {
    if (output < 0) continue;
    for (const StructureUse& use : s.heavy_uses(s.loose(output))) leave(use.node);
  }
}

}  // namespace

// A product that the reference follows by a bias and the foreign file does not: its reader adds the bias
// (SkipLayerNormalization, BiasGelu) when it reads more vectors than its operation needs.
std::vector<std::int32_t> biases_taken_in(const Placement& placement, std::int32_t f, std::ptrdiff_t needed) {
  const Structure& ours = placement.foreign;
  if (ours.nodes[f].domain != "com.microsoft" || vectors_read(ours, f) <= needed) return {};
  for (const std::int32_t input : ours.nodes[f].inputs) {
    if (input < 0 || ours.values[input].constant) continue;
    // Straight from the product, no bias in between.
    for (const std::int32_t maker : ours.values[input].producers) {
      const std::int32_t partner = placement.pairs.node(maker);
      if (partner < 0 || ours.nodes[maker].op_type != "MatMul") continue;
      const Structure& theirs = placement.reference.structure;
      const StructureNode& product = theirs.nodes[partner];
      if (product.op_type == "Gemm" && product.inputs.size() > 2) return placement.reference.units_of_node[partner];
      for (const StructureUse& use : theirs.values[product.outputs[0]].uses) {
        if (use.node < 0 || theirs.nodes[use.node].op_type != "Add") continue;
        if (theirs.nodes[use.node].kind == NodeKind::transparent) return placement.reference.units_of_node[use.node];
      }
    }
  }
  return {};
}

void place_corresponding(Placement& placement) {
  for (const std::int32_t f : placement.foreign.order) {
    if (placement.placed(f)) continue;
    const std::int32_t r = placement.pairs.node(f);
    if (!placement.pairs.joint(f).empty()) {
      placement.place(f, placement.pairs.joint(f), Confidence::matched, MatchRule::cone);
      continue;
    }
    if (r < 0) continue;
    std::vector<std::int32_t> units = placement.reference.units_of_node[r];
    leave_to_neighbours(placement, f, units);
    std::vector<std::int32_t> more = taken_in(placement, f, r);
    const std::vector<std::int32_t> biased =
        biases_taken_in(placement, f, vectors_read(placement.reference.structure, r));
    more.insert(more.end(), biased.begin(), biased.end());
    const bool fused = std::any_of(more.begin(), more.end(), [&](std::int32_t unit) {
      return std::find(units.begin(), units.end(), unit) == units.end();
    });
    units.insert(units.end(), more.begin(), more.end());
    placement.place(f, std::move(units), placement.pairs.certain(f) ? Confidence::matched : Confidence::inferred,
                    fused ? MatchRule::cone : MatchRule::structure);
  }
}

}  // namespace whence::match
