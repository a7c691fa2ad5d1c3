// Places nodes with a partner in the reference. Such a node represents the partner's units, and the units of all
// reference nodes between its inputs and results that no other foreign node computes: it absorbed them.
//
//   reference  a -> MatMul -> Add(residual) -> LayerNormalization -> b
//   foreign    a', r' -> SkipLayerNormalization -> b'                     units: add, layer_norm
#include <algorithm>
#include <string_view>
#include <vector>

#include "annotator/match/op_class.h"
#include "annotator/match/placement.h"

namespace whence::match {

using origin::Confidence;

namespace {

constexpr int max_depth = 40;  // nodes on a path through a cone

void append(std::vector<UnitIndex>& units, const std::vector<UnitIndex>& more) {
  units.insert(units.end(), more.begin(), more.end());
}

class Cone {
 public:
  Cone(const Placement& placement, std::vector<ReferenceValue> stops)
      : placement_(placement), r_(placement.reference.structure), stops_(std::move(stops)) {}

  // Adds the units on paths from `value` back to a stop. Returns true if there is such a path.
  bool reaches(ReferenceValue value, int depth) {
    if (std::find(stops_.begin(), stops_.end(), value) != stops_.end()) return true;
    // If the foreign file has the value as well, another of its nodes computes it.
    if (placement_.pairs.partner(value).exists() && depth > 0) return false;
    if (depth >= max_depth || ++visited_ > 4 * max_depth) return false;
    bool any = false;
    for (const ReferenceNode producer : r_.makers(value)) {
      bool through = false;
      for (const ReferenceValue input : r_.data_inputs(producer)) {
        if (input.exists()) through |= reaches(input, depth + 1);
      }
      if (!through) continue;
      any = true;
      if (pads_vanished && r_.nodes[producer].op_type == "Pad") continue;
      if (is_product && is_activation(r_.nodes[producer].op_class)) continue;
      if (r_.has_no_effect(producer)) continue;
      if (!has_weights && r_.nodes[producer].op_type != "Pad" && r_.reads_weights(producer)) continue;
      append(units, placement_.reference.units_of_node[producer]);
    }
    return any;
  }

  std::vector<UnitIndex> units;
  bool pads_vanished = false;  // a Pad on the path padded nothing, and a tool removed it
  bool is_product = false;     // of the foreign node; if true, an activation before it belongs to the earlier product
  // True if the foreign node reads weights. A node without weights cannot have absorbed a node that scales or shifts by
  // weights.
  bool has_weights = true;

 private:
  const Placement& placement_;
  const ReferenceStructure& r_;
  std::vector<ReferenceValue> stops_;
  int visited_ = 0;
};

// Returns the units of the nodes before the reference node that the foreign node absorbed. Returns none if an input of
// the foreign node has no partner: then the nodes before it are unknown.
std::vector<UnitIndex> absorbed_before(const Placement& placement, ForeignNode f, ReferenceNode r) {
  const ForeignStructure& foreign = placement.foreign;
  const ReferenceStructure& reference = placement.reference.structure;
  std::vector<ReferenceValue> stops;
  for (const ForeignValue input : foreign.data_inputs(f)) {
    if (!input.exists()) continue;
    if (!placement.pairs.partner(input).exists()) return {};
    stops.push_back(placement.pairs.partner(input));
  }
  // A tool that computes an operand of known sizes folds the nodes before it into a constant, not into this node.
  const auto& own = foreign.nodes[f].inputs;
  const bool same_operands =
      foreign.nodes[f].op_type == reference.nodes[r].op_type && own.size() == reference.nodes[r].inputs.size();
  const auto is_folded = [&](std::size_t i) {
    return same_operands && own[i].exists() && foreign.values[own[i]].constant;
  };
  std::vector<UnitIndex> units;
  const std::vector<ReferenceValue> inputs = reference.data_inputs(r);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ReferenceValue input = inputs[i];
    if (!input.exists() || is_folded(i) || std::find(stops.begin(), stops.end(), input) != stops.end()) continue;
    Cone cone(placement, stops);
    // A Pad that a convolution absorbs changes its padding.
    cone.pads_vanished = foreign.nodes[f].padding == reference.nodes[r].padding;
    cone.has_weights = foreign.reads_weights(f);
    cone.is_product = is_product(foreign.nodes[f].op_class);
    if (cone.reaches(input, 0)) append(units, cone.units);
  }
  return units;
}

// Returns the units of the nodes after the reference node, if the foreign node's result corresponds to a later value
// than the reference node's own. The foreign node's inputs need no partners: an activation that a convolution absorbed
// comes after it, even if the pooling before it is expressed differently.
std::vector<UnitIndex> absorbed_after(const Placement& placement, ForeignNode f, ReferenceNode r) {
  const ForeignStructure& foreign = placement.foreign;
  const ReferenceStructure& reference = placement.reference.structure;
  if (foreign.nodes[f].outputs.empty() || reference.nodes[r].outputs.empty()) return {};
  const ReferenceValue own = reference.loose(reference.nodes[r].outputs[0]);
  const ForeignValue result = foreign.loose(foreign.nodes[f].outputs[0]);
  const ReferenceValue later = result.exists() ? placement.pairs.partner(result) : ReferenceValue();
  if (!own.exists()) return {};
  if (!later.exists() || later == own) return stated_activation(placement, f, own);
  Cone cone(placement, {own});
  if (!cone.reaches(later, 0)) return {};
  // The activation may follow a sum that the node absorbed as well.
  append(cone.units, stated_activation(placement, f, later));
  return cone.units;
}

// Returns the Transposes between a value and the computing node or input before it.
template <Side S>
std::vector<NodeIndex<S>> transposes_before(const Structure<S>& s, ValueIndex<S> value) {
  std::vector<NodeIndex<S>> found;
  while (value.exists() && s.values[value].producers.size() == 1) {
    const NodeIndex<S> node = s.values[value].producers.front();
    if (s.nodes[node].kind != NodeKind::transparent || s.nodes[node].inputs.empty()) break;
    if (s.nodes[node].op_type == "Transpose") found.push_back(node);
    value = s.nodes[node].inputs.front();
  }
  return found;
}

// Returns the units of the Transposes of operands that a product states as attributes (transA).
std::vector<UnitIndex> absorbed_transposes(const Placement& placement, ForeignNode f, ReferenceNode r) {
  const ForeignStructure& foreign = placement.foreign;
  const ReferenceStructure& reference = placement.reference.structure;
  if (!foreign.nodes[f].transposes_operand || reference.nodes[r].transposes_operand) return {};
  std::vector<UnitIndex> units;
  const auto& inputs = reference.nodes[r].inputs;
  for (std::size_t i = 0; i < std::min(inputs.size(), foreign.nodes[f].inputs.size()); ++i) {
    const auto vanished = transposes_before(reference, inputs[i]);
    if (vanished.size() <= transposes_before(foreign, foreign.nodes[f].inputs[i]).size()) continue;
    for (const ReferenceNode node : vanished) append(units, placement.reference.units_of_node[node]);
  }
  return units;
}

std::vector<UnitIndex> absorbed_units(const Placement& placement, ForeignNode f, ReferenceNode r) {
  // Many nodes do not change sizes, so the position of a Shape among them is no evidence.
  const std::string_view op_type = placement.foreign.nodes[f].op_type;
  if (op_type == "Shape" || op_type == "Size") return {};
  std::vector<UnitIndex> units = absorbed_before(placement, f, r);
  append(units, absorbed_after(placement, f, r));
  append(units, absorbed_transposes(placement, f, r));
  return units;
}

// Returns the number of vectors that a node adds or multiplies by.
template <Side S>
std::ptrdiff_t vectors_read(const Structure<S>& s, NodeIndex<S> node) {
  return std::ranges::count_if(s.nodes[node].inputs, [&](ValueIndex<S> input) {
    if (!input.exists() || !s.values[input].constant) return false;
    const TensorIndex<S> tensor = s.root_tensor(input);
    return tensor.exists() && s.tensors[tensor].is_vector() && s.tensors[tensor].elements() > 1;
  });
}

bool is_bias(const StructureNode<Side::reference>& node) {
  return node.op_type == "Add" && node.kind == NodeKind::transparent;
}

// Returns the units of the sums with a constant that directly follow a product of the reference.
std::vector<UnitIndex> units_of_bias_after(const Placement& placement, ReferenceNode product) {
  const ReferenceStructure& reference = placement.reference.structure;
  std::vector<UnitIndex> units;
  const auto& outputs = reference.nodes[product].outputs;
  if (outputs.empty() || !outputs[0].exists()) return units;
  for (const auto& use : reference.values[outputs[0]].uses) {
    if (!use.node.exists() || !is_bias(reference.nodes[use.node])) continue;
    append(units, placement.reference.units_of_node[use.node]);
  }
  return units;
}

// Removes the units that a neighbour in the foreign file represents: a reference node with Pad and BatchNormalization
// folded in may be the partner of a Conv after a separate Pad.
void remove_units_of_neighbours(const Placement& placement, ForeignNode f, std::vector<UnitIndex>& units) {
  const ForeignStructure& s = placement.foreign;
  const auto remove_units_of = [&](ForeignNode neighbour) {
    const ReferenceNode partner = placement.pairs.partner(neighbour);
    if (!partner.exists() || neighbour == f) return;
    const auto& partner_units = placement.reference.units_of_node[partner];
    if (partner_units.size() != 1 || units.size() < 2) return;
    std::erase(units, partner_units.front());
  };
  for (const ForeignValue input : s.data_inputs(f)) {
    if (!input.exists()) continue;
    for (const ForeignNode maker : s.makers(input)) remove_units_of(maker);
  }
  for (const ForeignValue output : s.nodes[f].outputs) {
    if (!output.exists()) continue;
    for (const auto& use : s.heavy_uses(s.loose(output))) remove_units_of(use.node);
  }
}

}  // namespace

std::vector<UnitIndex> stated_activation(const Placement& placement, ForeignNode f, ReferenceValue own) {
  if (!placement.foreign.nodes[f].states_activation) return {};
  const ReferenceStructure& reference = placement.reference.structure;
  std::vector<UnitIndex> units;
  for (bool ends = false; !ends && own.exists();) {
    const auto& uses = reference.heavy_uses(own);
    const bool all = !uses.empty() && std::ranges::all_of(uses, [&](const auto& use) {
      return use.node.exists() && is_activation(reference.nodes[use.node].op_class) &&
             !placement.pairs.partner(use.node).exists();
    });
    if (!all) return {};
    // A reference with several forms has several uses.
    for (const auto& use : uses) append(units, placement.reference.units_of_node[use.node]);
    const auto& reader = reference.nodes[uses.front().node];
    ends = reader.op_type != "BatchNormalization";
    own = reader.outputs.empty() ? ReferenceValue() : reference.loose(reader.outputs[0]);
  }
  return units;
}

// A bias follows the product in the reference, but not in the foreign file. The product's reader adds it
// (SkipLayerNormalization, BiasGelu) if it reads more vectors than its operation needs.
std::vector<UnitIndex> absorbed_biases(const Placement& placement, ForeignNode f, std::ptrdiff_t needed) {
  const ForeignStructure& foreign = placement.foreign;
  if (foreign.nodes[f].domain != "com.microsoft" || vectors_read(foreign, f) <= needed) return {};
  for (const ForeignValue input : foreign.nodes[f].inputs) {
    if (!input.exists() || foreign.values[input].constant) continue;
    // The input is the product's own result, without a bias in between.
    for (const ForeignNode maker : foreign.values[input].producers) {
      const ReferenceNode partner = placement.pairs.partner(maker);
      if (!partner.exists() || foreign.nodes[maker].op_type != "MatMul") continue;
      const ReferenceStructure& reference = placement.reference.structure;
      const auto& product = reference.nodes[partner];
      if (product.op_type == "Gemm" && product.inputs.size() > 2) return placement.reference.units_of_node[partner];
      if (auto units = units_of_bias_after(placement, partner); !units.empty()) return units;
    }
  }
  return {};
}

namespace {

// Returns the units of the sum after the partner if a product reads a bias that its partner does not: it reads more
// vectors than the `needed` ones of the partner. The product absorbed that sum, in whatever module it is.
std::vector<UnitIndex> own_bias(const Placement& placement, ForeignNode f, ReferenceNode r, std::ptrdiff_t needed) {
  if (!is_product(placement.foreign.nodes[f].op_class) || vectors_read(placement.foreign, f) <= needed) return {};
  return units_of_bias_after(placement, r);
}

// Returns the units of a sum with a constant that a Skip...Normalization absorbed: it adds before it normalizes. The
// values around the node do not show such a sum, for instance with position embeddings that a tool computed.
std::vector<UnitIndex> constant_added_before(const Placement& placement, ForeignNode f, ReferenceNode r) {
  const ReferenceStructure& reference = placement.reference.structure;
  const auto& node = placement.foreign.nodes[f];
  const auto& normalized = reference.nodes[r].inputs;
  const auto adds = [](std::string_view op_type) { return op_type.starts_with("Skip"); };
  if (!adds(node.op_type) || adds(reference.nodes[r].op_type) || node.inputs.size() < 2) return {};
  const bool of_constant = std::ranges::any_of(node.inputs.begin(), node.inputs.begin() + 2, [&](ForeignValue each) {
    return each.exists() && placement.foreign.values[each].constant;
  });
  if (!of_constant || normalized.empty() || !normalized.front().exists()) return {};
  std::vector<UnitIndex> units;
  for (const ReferenceNode maker : reference.values[normalized.front()].producers) {
    if (reference.nodes[maker].op_type != "Add") continue;
    append(units, placement.reference.units_of_node[maker]);
  }
  return units;
}

}  // namespace

void place_corresponding(Placement& placement) {
  for (const ForeignNode f : placement.foreign.order) {
    if (placement.settled(f)) continue;
    const ReferenceNode r = placement.pairs.partner(f);
    if (!placement.pairs.joint_units(f).empty()) {
      placement.place(f, placement.pairs.joint_units(f), Confidence::matched, MatchRule::cone);
      continue;
    }
    if (!r.exists()) continue;
    if (placement.pairs.is_guessed(f)) {
      placement.matches[f] = {
          .scope = placement.pairs.tie_scope(f), .confidence = Confidence::ancestor, .rule = MatchRule::structure};
      continue;
    }
    std::vector<UnitIndex> units = placement.reference.units_of_node[r];
    remove_units_of_neighbours(placement, f, units);
    std::vector<UnitIndex> more = absorbed_units(placement, f, r);
    const std::ptrdiff_t needed = vectors_read(placement.reference.structure, r);
    append(more, absorbed_biases(placement, f, needed));
    append(more, own_bias(placement, f, r, needed));
    append(more, constant_added_before(placement, f, r));
    const bool fused = std::any_of(more.begin(), more.end(), [&](UnitIndex unit) {
      return std::find(units.begin(), units.end(), unit) == units.end();
    });
    append(units, more);
    // Names decide later which of the operations the node is for.
    const bool shared = placement.reference.shared_nodes.contains(r) && !placement.one_scope(units);
    const Confidence confidence = placement.pairs.is_certain(f) ? Confidence::matched : Confidence::inferred;
    placement.place(f, std::move(units), shared ? Confidence::ancestor : confidence,
                    fused ? MatchRule::cone : MatchRule::structure);
    placement.matches[f].shared = shared;
  }
}

}  // namespace whence::match
