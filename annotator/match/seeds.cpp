#include "annotator/match/seeds.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "annotator/match/op_class.h"

namespace whence::match {

void Seeds::link_interface() {
  link_by_name_or_position(f_.inputs, r_.inputs);
  link_by_name_or_position(f_.outputs, r_.outputs);
}

void Seeds::link_by_name_or_position(const std::vector<ForeignValue>& f_values,
                                     const std::vector<ReferenceValue>& r_values) {
  std::unordered_map<std::string_view, ReferenceValue> by_name;
  for (const ReferenceValue value : r_values) by_name.emplace(r_.values[value].name, value);
  bool any_named = false;
  for (const ForeignValue value : f_values) {
    const auto found = by_name.find(f_.values[value].name);
    if (found == by_name.end()) continue;
    any_named = true;
    links_.link(f_.loose(value), r_.loose(found->second));
  }
  if (any_named || f_values.size() != r_values.size()) return;
  for (std::size_t i = 0; i < f_values.size(); ++i) {
    if (may_be_same(f_.loose(f_values[i]), r_.loose(r_values[i])))
      links_.link(f_.loose(f_values[i]), r_.loose(r_values[i]));
  }
}

// Returns true if an input or output with another name in the same position may be the same value: the nodes that read
// or compute it are similar and have weights of the same sizes. In an extracted part of a model they usually are not.
bool Seeds::may_be_same(ForeignValue fv, ReferenceValue rv) const {
  for (const ForeignNode f : f_.makers(fv)) {
    for (const ReferenceNode r : r_.makers(rv)) {
      if (are_alike(f, r)) return true;
    }
  }
  if (!f_.makers(fv).empty()) return false;
  for (const auto& f_use : f_.heavy_uses(fv)) {
    for (const auto& r_use : r_.heavy_uses(rv)) {
      if (are_alike(f_use.node, r_use.node)) return true;
    }
  }
  return false;
}

bool Seeds::are_alike(ForeignNode f, ReferenceNode r) const {
  // A product of two values never corresponds to one with weights.
  if (is_product(f_.nodes[f].op_class) && f_.count_data_inputs(f) != r_.count_data_inputs(r)) return false;
  // One product for several, with concatenated weights, has sizes of its own.
  if (reads_weights_of(f, r)) return true;
  return f_.nodes[f].op_class == r_.nodes[r].op_class && likeness_.constant_likeness(f, r) >= 0 &&
         !likeness_.kernels_differ(f, r);
}

// Returns true if the content of a weight that the foreign node reads is a parameter of the reference node.
bool Seeds::reads_weights_of(ForeignNode f, ReferenceNode r) const {
  const auto& units = reference_.units_of_node[r];
  return std::ranges::any_of(evidence_[f], [&](const Evidence& evidence) {
    return is_of_content(evidence.rule) && std::ranges::find(units, evidence.unit) != units.end();
  });
}

void Seeds::link_kept_values(const SameNames& same_names) {
  for (const ForeignValue i : f_.values.keys()) {
    const ReferenceValue same = same_names.computed_value(i);
    if (!same.exists() || f_.values[i].constant) continue;
    // Tools that fold a scaling into the product before it may keep the name of the product's result.
    const ForeignValue fv = f_.loose(i);
    const ReferenceValue rv = r_.loose(same);
    const ReferenceValue later = folded_.after_weighted(fv, rv);
    links_.link(fv, same_names.is_kept(later) ? rv : later);
  }
}

void Seeds::link_known_values(const std::vector<KnownValue>& values) {
  for (const KnownValue& known : values) {
    if (known.reference.exists()) links_.link(f_.loose(known.foreign), r_.loose(known.reference));
  }
}

void Seeds::propose_by_evidence() {
  for (const ForeignNode f : f_.order) {
    if (f_.nodes[f].kind != NodeKind::heavy) continue;
    for (const Evidence& evidence : evidence_[f]) {
      if (!evidence.unit.exists() || evidence.strength <= 0 || evidence.rule == MatchRule::fx_names) continue;
      if (evidence.rule == MatchRule::sketches) continue;  // propose_by_changed_weights()
      for (const ReferenceNode r : reference_.nodes_of_unit[evidence.unit]) {
        if (r_.nodes[r].op_class == f_.nodes[f].op_class) proposals_.propose(f, r);
      }
    }
  }
}

bool Seeds::propose_by_changed_weights() {
  if (!std::exchange(sketches_proposed_, true) && propose_by_rule(MatchRule::sketches)) return true;
  return !std::exchange(shapes_proposed_, true) && propose_by_rule(MatchRule::shapes);
}

bool Seeds::propose_by_rule(MatchRule rule) {
  const std::size_t before = proposals_.size();
  for (const ForeignNode f : f_.order) {
    if (pairs_.partner(f).exists() || f_.nodes[f].kind != NodeKind::heavy) continue;
    for (const Evidence& evidence : evidence_[f]) {
      if (evidence.rule != rule) continue;
      for (const ReferenceNode r : reference_.nodes_of_unit[evidence.unit]) {
        if (r_.nodes[r].op_class != f_.nodes[f].op_class) continue;
        proposals_.propose(f, r, rule == MatchRule::shapes ? Distance::far : Distance::near);
      }
    }
  }
  return proposals_.size() > before;
}

}  // namespace whence::match
