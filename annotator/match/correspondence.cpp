// Grows the correspondence: first seeds, then pairs, the best supported first.
#include "annotator/match/correspondence.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "annotator/match/correspondence_weights.h"
#include "annotator/match/op_class.h"

namespace whence::match {
namespace {

constexpr std::size_t max_rivals = 96;  // partners kept for a node
constexpr int max_bridges = 64;         // rounds of looking past nodes without partner; each looks everywhere

}  // namespace

Correspondence::Correspondence(const ForeignStructure& foreign, const Reference& reference,
                               const EvidenceTable& evidence)
    : f_(foreign),
      reference_(reference),
      r_(reference.structure),
      evidence_(evidence),
      node_of_(foreign.nodes.size()),
      foreign_node_of_(r_.nodes.size()),
      value_of_(foreign.values.size()),
      foreign_of_(r_.values.size()),
      certain_(foreign.nodes.size(), false),
      sure_of_scope_(foreign.nodes.size(), false),
      guessed_(foreign.nodes.size(), false),
      value_certain_(foreign.values.size(), false),
      tie_scope_(foreign.nodes.size()),
      value_tie_scope_(foreign.values.size()),
      rivals_of_f_(foreign.nodes.size()),
      rivals_of_r_(r_.nodes.size()) {}

void Correspondence::grow(const std::vector<KnownValue>& values, const SameNames& same_names) {
  seed_interface();
  if (reference_.values_keep_names) seed_kept_values(same_names);
  seed_values(values);
  seed_evidence();
  while (true) {
    link_joint_products();
    settle(clear_gap);
    link_joint_products();
    settle(small_gap);
    if (!queue_.empty()) continue;
    if (bridges_++ < max_bridges && bridge()) continue;
    if (seed_changed_weights()) continue;
    if (break_ties()) continue;
    break;
  }
  confirm();
}

// ---- seeds --------------------------------------------------------------------------------------------------------

void Correspondence::seed_interface() {
  std::unordered_map<std::string_view, ReferenceValue> inputs, outputs;
  for (const ReferenceValue value : r_.inputs) inputs.emplace(r_.values[value].name, value);
  for (const ReferenceValue value : r_.outputs) outputs.emplace(r_.values[value].name, value);
  const auto seed = [&](const std::vector<ForeignValue>& foreign_values,
                        const std::vector<ReferenceValue>& reference_values,
                        const std::unordered_map<std::string_view, ReferenceValue>& by_name) {
    std::size_t named = 0;
    for (const ForeignValue value : foreign_values) {
      const auto found = by_name.find(f_.values[value].name);
      if (found == by_name.end()) continue;
      ++named;
      link(f_.loose(value), r_.loose(found->second));
    }
    if (named > 0 || foreign_values.size() != reference_values.size()) return;
    for (std::size_t i = 0; i < foreign_values.size(); ++i) {
      if (may_be_same(f_.loose(foreign_values[i]), r_.loose(reference_values[i])))
        link(f_.loose(foreign_values[i]), r_.loose(reference_values[i]));
    }
  };
  seed(f_.inputs, r_.inputs, inputs);
  seed(f_.outputs, r_.outputs, outputs);
}

void Correspondence::seed_kept_values(const SameNames& same_names) {
  for (const ForeignValue i : f_.values.keys()) {
    const ReferenceValue same = same_names.computed_value(i);
    if (!same.exists() || f_.values[i].constant) continue;
    // Tools that fold a scaling into the product before it may keep the name of the product's result.
    const ForeignValue fv = f_.loose(i);
    const ReferenceValue rv = r_.loose(same);
    const ReferenceValue behind = behind_folded(fv, rv);
    link(fv, same_names.is_kept(behind) ? rv : behind);
  }
}

// Equal numbers make two values one; what lies between two such values then is what the program has there.
void Correspondence::seed_values(const std::vector<KnownValue>& values) {
  for (const KnownValue& known : values) {
    if (known.reference.exists()) link(f_.loose(known.foreign), r_.loose(known.reference));
  }
}

// Returns true if an input or output with another name in the same position may be the same value: the nodes that read
// or make it are alike and have weights of the same sizes. In a part taken out of a larger model they usually are not.
bool Correspondence::may_be_same(ForeignValue fv, ReferenceValue rv) const {
  const auto computed_inputs = [](const auto& s, auto node) {
    return std::ranges::count_if(s.data_inputs(node), [](auto input) { return input.exists(); });
  };
  const auto alike = [&](ForeignNode a, ReferenceNode b) {
    // A product of two values is never one with weights.
    if (is_product(f_.nodes[a].op_class) && computed_inputs(f_, a) != computed_inputs(r_, b)) return false;
    // One product for several, whose weights lie side by side, has sizes of its own.
    if (reads_weights_of(a, b)) return true;
    return f_.nodes[a].op_class == r_.nodes[b].op_class && constants_alike(a, b) >= 0 && !kernels_differ(a, b);
  };
  for (const ForeignNode a : f_.makers(fv)) {
    for (const ReferenceNode b : r_.makers(rv)) {
      if (alike(a, b)) return true;
    }
  }
  if (!f_.makers(fv).empty()) return false;
  for (const auto& a : f_.heavy_uses(fv)) {
    for (const auto& b : r_.heavy_uses(rv)) {
      if (alike(a.node, b.node)) return true;
    }
  }
  return false;
}

// Returns true if the content of a weight that the foreign node reads says that it is the reference's node.
bool Correspondence::reads_weights_of(ForeignNode f, ReferenceNode r) const {
  const auto& units = reference_.units_of_node[r];
  return std::ranges::any_of(evidence_[f], [&](const Evidence& evidence) {
    return is_of_content(evidence.rule) && std::ranges::find(units, evidence.unit) != units.end();
  });
}

void Correspondence::seed_evidence() {
  for (const ForeignNode f : f_.order) {
    if (f_.nodes[f].kind != NodeKind::heavy) continue;
    for (const Evidence& evidence : evidence_[f]) {
      if (!evidence.unit.exists() || evidence.strength <= 0 || evidence.rule == MatchRule::fx_names) continue;
      if (evidence.rule == MatchRule::sketches) continue;  // seed_changed_weights()
      for (const ReferenceNode r : reference_.nodes_of_unit[evidence.unit]) {
        if (r_.nodes[r].op_class == f_.nodes[f].op_class) propose(f, r);
      }
    }
  }
}

// Seeds by sketches of weights, then by their sizes, for nodes alone that growth from better seeds did not reach. Where
// a tool changed a weight it changed the nodes around it, too, and growth finds the form of the reference that has
// them; a sketch is as near to every form.
bool Correspondence::seed_changed_weights() {
  if (!std::exchange(sketches_seeded_, true) && seed(MatchRule::sketches)) return true;
  return !std::exchange(shapes_seeded_, true) && seed(MatchRule::shapes);
}

bool Correspondence::seed(MatchRule rule) {
  const std::size_t before = queue_.size();
  for (const ForeignNode f : f_.order) {
    if (node_of_[f].exists() || f_.nodes[f].kind != NodeKind::heavy) continue;
    for (const Evidence& evidence : evidence_[f]) {
      if (evidence.rule != rule) continue;
      for (const ReferenceNode r : reference_.nodes_of_unit[evidence.unit]) {
        if (r_.nodes[r].op_class != f_.nodes[f].op_class) continue;
        if (rule == MatchRule::shapes) bonus_[pair_key(f, r)] += bridged;
        propose(f, r);
      }
    }
  }
  return queue_.size() > before;
}

// ---- growth -------------------------------------------------------------------------------------------------------

void Correspondence::propose(ForeignNode f, ReferenceNode r) {
  if (node_of_[f].exists() || foreign_node_of_[r].exists()) return;
  if (f_.nodes[f].kind != NodeKind::heavy || r_.nodes[r].kind != NodeKind::heavy) return;
  if (other_form_taken(r)) return;
  if (kernels_differ(f, r) || f_.nodes[f].computes_sizes != r_.nodes[r].computes_sizes) return;
  auto& rivals = rivals_of_f_[f];
  if (std::find(rivals.begin(), rivals.end(), r) == rivals.end()) {
    if (rivals.size() >= max_rivals || rivals_of_r_[r].size() >= max_rivals) return;
    rivals.push_back(r);
    rivals_of_r_[r].push_back(f);
  }
  queue_.push({score(f, r), f, r});
}

// Returns true if a product with weights has a partner in another form of the reference: both forms are the same
// operation, which is in the foreign file only once.
bool Correspondence::other_form_taken(ReferenceNode r) const {
  const auto& node = r_.nodes[r];
  if (!is_product(node.op_class) || !r_.reads_weights(r) || node.outputs.empty() || !node.outputs[0].exists())
    return false;
  return std::ranges::any_of(r_.makers(r_.loose(node.outputs[0])), [&](ReferenceNode other) {
    return other != r && foreign_node_of_[other].exists() && r_.nodes[other].op_class == node.op_class &&
           same_units(other, r);
  });
}

void Correspondence::settle(double gap) {
  for (const Candidate& candidate : waiting_) queue_.push(candidate);
  waiting_.clear();
  while (!queue_.empty()) {
    Candidate top = queue_.top();
    queue_.pop();
    if (node_of_[top.foreign].exists() || foreign_node_of_[top.reference].exists()) continue;
    if (other_form_taken(top.reference)) continue;
    const double now = score(top.foreign, top.reference);
    if (now < top.score - 1e-9) {  // pairs accepted since then lowered the score
      queue_.push({now, top.foreign, top.reference});
      continue;
    }
    top.score = now;
    if (support(top.foreign, top.reference) < needed) continue;
    if (now - best_rival(top.foreign, top.reference) < gap) {
      waiting_.push_back(top);
      continue;
    }
    // Scores may tell twins apart only by how an exporter happened to write one of them: a good guess, but a guess.
    tie_broken_ = tie_broken_ || !leads_by_support(top.foreign, top.reference, Trust::all);
    accept(top.foreign, top.reference, !tie_broken_ || stands_alone(top.foreign, top.reference));
  }
}

// Links a foreign product that does the work of several products of the reference which read the same value (query, key
// and value in one MatMul). A Split takes its result apart; the parts correspond to the reference's results in the
// order of the weight's parts, or if that is not known, in execution order.
void Correspondence::link_joint_products() {
  for (const ForeignNode f : f_.order) {
    const auto& split = f_.nodes[f];
    if (split.op_type != "Split" || split.outputs.size() < 2 || node_of_[f].exists()) continue;
    const ForeignValue input = f_.data_inputs(f)[0];
    if (!input.exists() || f_.makers(input).size() != 1 || f_.heavy_uses(input).size() != 1) continue;
    const ForeignNode product = f_.makers(input)[0];
    if (!is_product(f_.nodes[product].op_class) || node_of_[product].exists()) continue;
    const ForeignValue read = f_.data_inputs(product)[0];
    if (!read.exists() || !value_of_[read].exists()) continue;
    bool ordered = false;
    const std::vector<UnitIndex> units = parts_of(product, value_of_[read], ordered);
    if (units.size() != split.outputs.size()) continue;
    linking_certain_ = ordered;
    tie_broken_ = tie_broken_ || !ordered;
    joint_[product] = joint_[f] = units;
    for (std::size_t i = 0; i < units.size(); ++i) {
      for (const ReferenceNode r : reference_.nodes_of_unit[units[i]]) {
        if (r_.nodes[r].op_class != f_.nodes[product].op_class || r_.nodes[r].outputs.empty()) continue;
        link(f_.loose(split.outputs[i]), r_.loose(r_.nodes[r].outputs[0]));
        break;
      }
    }
    linking_certain_ = true;
  }
}

// Returns the units whose products the joint product computes; `ordered`: their order is known from the weight's parts.
std::vector<UnitIndex> Correspondence::parts_of(ForeignNode product, ReferenceValue read, bool& ordered) const {
  std::vector<UnitIndex> units;
  const auto add = [&](UnitIndex unit) {
    if (std::find(units.begin(), units.end(), unit) == units.end()) units.push_back(unit);
  };
  // Calls of one module share its weight, and read other values.
  const auto reads_it = [&](UnitIndex unit) {
    return std::ranges::any_of(r_.heavy_uses(read), [&](const auto& use) {
      const auto& nodes = reference_.nodes_of_unit[unit];
      return use.node.exists() && std::ranges::find(nodes, use.node) != nodes.end();
    });
  };
  for (const Evidence& evidence : evidence_[product]) {
    if (is_of_content(evidence.rule) && evidence.unit.exists() && reads_it(evidence.unit)) add(evidence.unit);
  }
  ordered = units.size() > 1;
  if (ordered) return units;
  units.clear();
  for (const auto& use : r_.heavy_uses(read)) {
    if (r_.nodes[use.node].op_class != f_.nodes[product].op_class || use.slot != 0) continue;
    const auto& of_node = reference_.units_of_node[use.node];
    if (of_node.size() == 1 && !foreign_node_of_[use.node].exists()) add(of_node[0]);
  }
  std::sort(units.begin(), units.end());
  return units;
}

// Breaks ties between twins, which nothing distinguishes, by the order of execution on both sides. One round accepts
// only pairs that are far from each other, since each accepted pair may distinguish its neighbours. If there are twins
// within one module, only these are broken: the module is right whichever is chosen, and the pairs that follow may
// distinguish twins of several modules. Of twins of several modules only the first is broken: in any order in which a
// file lists a module's nodes, the nodes of the modules that it feeds come later.
bool Correspondence::break_ties() {
  constexpr std::int32_t far = 64;
  if (position_f_.empty()) {
    position_f_ = f_.positions();
    position_r_ = r_.positions();
  }
  std::vector<Candidate> ties;
  for (Candidate& candidate : waiting_) {
    if (node_of_[candidate.foreign].exists() || foreign_node_of_[candidate.reference].exists()) continue;
    candidate.score = score(candidate.foreign, candidate.reference);
    if (candidate.score + small_gap < best_rival(candidate.foreign, candidate.reference)) continue;
    ties.push_back(candidate);
  }
  std::vector<Candidate> harmless;
  std::ranges::copy_if(ties, std::back_inserter(harmless),
                       [&](const Candidate& tie) { return !scope_of_tie(tie.foreign, tie.reference).exists(); });
  const bool one_module = !harmless.empty();
  if (one_module) ties = std::move(harmless);
  std::unordered_set<ReferenceNode> rivals;  // rivals in ties between modules that this round broke
  std::sort(ties.begin(), ties.end(), [&](const Candidate& a, const Candidate& b) {
    const auto key = [&](const Candidate& each) {
      return std::pair(position_f_[each.foreign], position_r_[each.reference]);
    };
    return key(a) < key(b);
  });
  std::int32_t last = -far;
  bool any = false;
  tie_broken_ = true;
  for (const Candidate& tie : ties) {
    if (position_f_[tie.foreign] - last < far) continue;
    if (node_of_[tie.foreign].exists() || foreign_node_of_[tie.reference].exists()) continue;
    if (other_form_taken(tie.reference)) continue;
    if (rivals.contains(tie.reference)) continue;
    if (!one_module) rivals.insert(rivals_of_f_[tie.foreign].begin(), rivals_of_f_[tie.foreign].end());
    last = position_f_[tie.foreign];
    tie_scope_[tie.foreign] = scope_of_tie(tie.foreign, tie.reference);
    accept(tie.foreign, tie.reference, false);
    any = true;
  }
  return any;
}

void Correspondence::accept(ForeignNode f, ReferenceNode r, bool certain) {
  node_of_[f] = r;
  foreign_node_of_[r] = f;
  certain_[f] = certain;
  linking_certain_ = certain;
  if (!certain) tie_scope_[f] = reference_.scopes.together(tie_scope_[f], scope_of_ties_around(f, r));
  linking_scope_ = tie_scope_[f];
  link_inputs(f, r);
  link_inputs_of_other_forms(f, r);
  link_outputs(f, r);
  linking_certain_ = true;
  linking_scope_ = {};
}

}  // namespace whence::match
