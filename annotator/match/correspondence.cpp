#include "annotator/match/correspondence.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "annotator/match/op_class.h"

namespace whence {
namespace {

constexpr std::size_t most_readers = 64;  // a value with more proposes no pairs by itself
constexpr std::size_t most_rivals = 96;   // partners kept for a node
constexpr int longest_step = 3;           // nodes that growth steps over on one side
constexpr int most_bridges = 64;          // rounds of looking past nodes without partner; each looks everywhere

// Worth of what speaks for a pair; one agreeing neighbour is 1.
constexpr double input_agrees = 1.0, output_agrees = 1.4;
constexpr double input_disagrees = -0.8, output_disagrees = -1.2, input_half_known = -0.25;
constexpr double attributes_agree = 0.2, constant_agrees = 0.4, constant_disagrees = -0.4;
constexpr double neighbours_alike = 0.3;
constexpr double bridged = 0.7;
constexpr double needed = 0.6;  // support without which likeness is not enough
constexpr double clear_gap = 0.25, small_gap = 0.05;

std::uint64_t pair_key(std::int32_t a, std::int32_t b) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32 | static_cast<std::uint32_t>(b);
}

std::vector<std::int32_t> positions(const Structure& s) {
  std::vector<std::int32_t> result(s.nodes.size(), 0);
  for (std::size_t i = 0; i < s.order.size(); ++i) result[s.order[i]] = static_cast<std::int32_t>(i);
  return result;
}

std::vector<std::int64_t> sorted_sizes(const StructureTensor& tensor) {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : tensor.dims) {
    if (size != 1) sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

}  // namespace

Correspondence::Correspondence(const Structure& foreign, const Reference& reference, const EvidenceTable& evidence)
    : f_(foreign),
      reference_(reference),
      r_(reference.structure),
      evidence_(evidence),
      node_of_(foreign.nodes.size(), -1),
      foreign_node_of_(r_.nodes.size(), -1),
      value_of_(foreign.values.size(), -1),
      foreign_of_(r_.values.size(), -1),
      certain_(foreign.nodes.size(), false),
      rivals_of_f_(foreign.nodes.size()),
      rivals_of_r_(r_.nodes.size()) {}

void Correspondence::grow() {
  seed_interface();
  seed_evidence();
  while (true) {
    link_joint_products();
    settle(clear_gap);
    link_joint_products();
    settle(small_gap);
    if (!queue_.empty()) continue;
    if (bridges_++ < most_bridges && bridge()) continue;
    if (seed_shapes()) continue;
    if (break_ties()) continue;
    break;
  }
}

// ---- seeds --------------------------------------------------------------------------------------------------------

void Correspondence::seed_interface() {
  std::unordered_map<std::string_view, std::int32_t> inputs, outputs;
  for (const std::int32_t value : r_.inputs) inputs.emplace(r_.values[value].name, value);
  for (const std::int32_t value : r_.outputs) outputs.emplace(r_.values[value].name, value);
  const auto seed = [&](const std::vector<std::int32_t>& ours, const std::vector<std::int32_t>& theirs,
                        const std::unordered_map<std::string_view, std::int32_t>& by_name) {
    std::size_t named = 0;
    for (const std::int32_t value : ours) {
      const auto found = by_name.find(f_.values[value].name);
      if (found == by_name.end()) continue;
      ++named;
      link(f_.loose(value), r_.loose(found->second));
    }
    if (named > 0 || ours.size() != theirs.size()) return;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      if (may_be_same(f_.loose(ours[i]), r_.loose(theirs[i]))) link(f_.loose(ours[i]), r_.loose(theirs[i]));
    }
  };
  seed(f_.inputs, r_.inputs, inputs);
  seed(f_.outputs, r_.outputs, outputs);
  if (!reference_.values_keep_names) return;
  std::unordered_map<std::string_view, std::int32_t> by_name;
  for (std::size_t i = 0; i < r_.values.size(); ++i) {
    if (!r_.values[i].constant) by_name.emplace(r_.values[i].name, static_cast<std::int32_t>(i));
  }
  for (std::size_t i = 0; i < f_.values.size(); ++i) {
    const auto found = by_name.find(f_.values[i].name);
    if (found == by_name.end() || f_.values[i].constant || f_.values[i].name.empty()) continue;
    link(f_.loose(static_cast<std::int32_t>(i)), r_.loose(found->second));
  }
}

// An input or output of another name in the same place: of the same model, if what reads or makes it is alike and has
// weights of the same sizes. A part taken out of a larger model begins and ends elsewhere.
bool Correspondence::may_be_same(std::int32_t fv, std::int32_t rv) const {
  const auto alike = [&](std::int32_t a, std::int32_t b) {
    return f_.nodes[a].op_class == r_.nodes[b].op_class && constants_alike(f_.nodes[a], r_.nodes[b]) >= 0;
  };
  for (const std::int32_t a : f_.makers(fv)) {
    for (const std::int32_t b : r_.makers(rv)) {
      if (alike(a, b)) return true;
    }
  }
  if (!f_.makers(fv).empty()) return false;
  for (const StructureUse& a : f_.heavy_uses(fv)) {
    for (const StructureUse& b : r_.heavy_uses(rv)) {
      if (alike(a.node, b.node)) return true;
    }
  }
  return false;
}

void Correspondence::seed_evidence() {
  for (const std::int32_t f : f_.order) {
    if (f_.nodes[f].kind != NodeKind::heavy) continue;
    for (const Evidence& evidence : evidence_[f]) {
      if (evidence.unit < 0) continue;
      for (const std::int32_t r : reference_.nodes_of_unit[evidence.unit]) {
        if (r_.nodes[r].op_class == f_.nodes[f].op_class) propose(f, r);
      }
    }
  }
}

// Sizes of weights are worth a start only where nothing better reached.
bool Correspondence::seed_shapes() {
  if (std::exchange(shapes_seeded_, true)) return false;
  const std::size_t before = queue_.size();
  for (const std::int32_t f : f_.order) {
    if (node_of_[f] >= 0 || f_.nodes[f].kind != NodeKind::heavy) continue;
    for (const Evidence& evidence : evidence_[f]) {
      if (evidence.rule != MatchRule::shapes) continue;
      for (const std::int32_t r : reference_.nodes_of_unit[evidence.unit]) {
        if (r_.nodes[r].op_class != f_.nodes[f].op_class) continue;
        bonus_[pair_key(f, r)] += bridged;
        propose(f, r);
      }
    }
  }
  return queue_.size() > before;
}

// ---- how well a pair is supported -----------------------------------------------------------------------------------

double Correspondence::evidence_for(std::int32_t f, std::int32_t r) const {
  double best = 0, sum = 0;
  for (const Evidence& evidence : evidence_[f]) {
    for (const std::int32_t unit : reference_.units_of_node[r]) {
      const bool agrees = evidence.unit >= 0 ? evidence.unit == unit : evidence.scope == reference_.units[unit].scope;
      if (!agrees) continue;
      best = std::max(best, evidence.strength);
      sum += 0.25 * evidence.strength;
      break;
    }
  }
  return best + std::min(sum, 0.5);
}

double Correspondence::support(std::int32_t f, std::int32_t r) const {
  const StructureNode& ours = f_.nodes[f];
  const StructureNode& theirs = r_.nodes[r];
  double total = evidence_for(f, r);
  const auto a = f_.data_inputs(ours), b = r_.data_inputs(theirs);
  if (is_commutative(ours.op_class) || a.size() != b.size()) {
    // As sets: values that correspond, wherever they stand.
    for (const std::int32_t value : a) {
      if (value < 0 || value_of_[value] < 0) continue;
      total += std::find(b.begin(), b.end(), value_of_[value]) != b.end() ? input_agrees : input_half_known;
    }
  } else {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] < 0 || b[i] < 0) continue;
      if (value_of_[a[i]] == b[i]) {
        total += input_agrees;
      } else if (value_of_[a[i]] >= 0 && foreign_of_[b[i]] >= 0) {
        total += input_disagrees;
      } else if (value_of_[a[i]] >= 0) {
        total += input_half_known;
      }
    }
  }
  for (std::size_t i = 0; i < ours.outputs.size() && i < theirs.outputs.size(); ++i) {
    const std::int32_t x = f_.loose(ours.outputs[i]), y = r_.loose(theirs.outputs[i]);
    if (x < 0 || y < 0) continue;
    if (value_of_[x] == y) {
      total += output_agrees;
    } else if (value_of_[x] >= 0 && foreign_of_[y] >= 0) {
      total += output_disagrees;
    }
  }
  if (const auto found = bonus_.find(pair_key(f, r)); found != bonus_.end()) total += found->second;
  return total;
}

double Correspondence::constants_alike(const StructureNode& f, const StructureNode& r) const {
  double total = 0;
  for (const std::int32_t x : f.inputs) {
    if (x < 0 || !f_.values[x].constant) continue;
    const std::int32_t a = f_.root_tensor(x);
    if (a < 0) continue;
    bool comparable = false, agrees = false;
    for (const std::int32_t y : r.inputs) {
      if (y < 0 || !r_.values[y].constant) continue;
      const std::int32_t b = r_.root_tensor(y);
      if (b < 0) continue;
      const StructureTensor& ours = f_.tensors[a];
      const StructureTensor& theirs = r_.tensors[b];
      comparable = true;
      if (ours.single && theirs.single) {
        const double scale = std::max(std::abs(ours.number), std::abs(theirs.number));
        agrees |= std::abs(ours.number - theirs.number) <= 1e-3 * scale;
      } else if (!ours.dims.empty() && sorted_sizes(ours) == sorted_sizes(theirs)) {
        agrees = true;
      }
    }
    if (comparable) total += agrees ? constant_agrees : constant_disagrees;
  }
  return std::clamp(total, -0.8, 0.8);
}

bool Correspondence::producers_alike(std::int32_t fv, std::int32_t rv) const {
  const auto& x = f_.makers(fv);
  const auto& y = r_.makers(rv);
  if (x.empty() || y.empty()) return x.empty() && y.empty();
  for (const std::int32_t a : x) {
    for (const std::int32_t b : y) {
      if (f_.nodes[a].op_class == r_.nodes[b].op_class) return true;
    }
  }
  return false;
}

// How much of what the foreign value's readers do is done by the reference value's readers as well, 0 to 1.
double Correspondence::consumers_alike(std::int32_t fv, std::int32_t rv) const {
  const auto& ours = f_.heavy_uses(fv);
  const auto& theirs = r_.heavy_uses(rv);
  double met = 0, all = 0;
  const auto look_for = [&](std::uint16_t wanted) {
    all += 1;
    met +=
        std::any_of(theirs.begin(), theirs.begin() + static_cast<std::ptrdiff_t>(std::min(theirs.size(), most_readers)),
                    [&](const StructureUse& use) { return r_.nodes[use.node].op_class == wanted; });
  };
  for (std::size_t i = 0; i < ours.size() && i < most_readers; ++i) look_for(f_.nodes[ours[i].node].op_class);
  if (all == 0) return theirs.empty() ? 1 : 0;
  return met / all;
}

double Correspondence::likeness(std::int32_t f, std::int32_t r) const {
  const StructureNode& ours = f_.nodes[f];
  const StructureNode& theirs = r_.nodes[r];
  double total = ours.attributes == theirs.attributes ? attributes_agree : 0;
  total += constants_alike(ours, theirs);
  const auto a = f_.data_inputs(ours), b = r_.data_inputs(theirs);
  double alike = 0, compared = 0;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] < 0 || b[i] < 0) continue;
    compared += 1;
    alike += producers_alike(a[i], b[i]);
  }
  if (compared > 0) total += neighbours_alike * alike / compared;
  if (!ours.outputs.empty() && !theirs.outputs.empty() && ours.outputs[0] >= 0 && theirs.outputs[0] >= 0) {
    total += neighbours_alike * consumers_alike(f_.loose(ours.outputs[0]), r_.loose(theirs.outputs[0]));
  }
  return total;
}

double Correspondence::score(std::int32_t f, std::int32_t r) const { return support(f, r) + likeness(f, r); }

bool Correspondence::same_units(std::int32_t a, std::int32_t b) const {
  return reference_.units_of_node[a] == reference_.units_of_node[b];
}

double Correspondence::best_rival(std::int32_t f, std::int32_t r) const {
  double best = 0;
  for (const std::int32_t other : rivals_of_f_[f]) {
    // Another form of the same operation is no rival.
    if (other == r || foreign_node_of_[other] >= 0 || same_units(other, r)) continue;
    best = std::max(best, score(f, other));
  }
  for (const std::int32_t other : rivals_of_r_[r]) {
    if (other != f && node_of_[other] < 0) best = std::max(best, score(other, r));
  }
  return best;
}

// ---- growth -------------------------------------------------------------------------------------------------------

void Correspondence::propose(std::int32_t f, std::int32_t r) {
  if (node_of_[f] >= 0 || foreign_node_of_[r] >= 0) return;
  if (f_.nodes[f].kind != NodeKind::heavy || r_.nodes[r].kind != NodeKind::heavy) return;
  auto& rivals = rivals_of_f_[f];
  if (std::find(rivals.begin(), rivals.end(), r) == rivals.end()) {
    if (rivals.size() >= most_rivals || rivals_of_r_[r].size() >= most_rivals) return;
    rivals.push_back(r);
    rivals_of_r_[r].push_back(f);
  }
  queue_.push({score(f, r), f, r});
}

void Correspondence::settle(double gap) {
  for (const Candidate& candidate : waiting_) queue_.push(candidate);
  waiting_.clear();
  while (!queue_.empty()) {
    Candidate top = queue_.top();
    queue_.pop();
    if (node_of_[top.foreign] >= 0 || foreign_node_of_[top.reference] >= 0) continue;
    const double now = score(top.foreign, top.reference);
    if (now < top.score - 1e-9) {  // what was learned since speaks against it
      queue_.push({now, top.foreign, top.reference});
      continue;
    }
    top.score = now;
    if (support(top.foreign, top.reference) < needed) continue;
    if (now - best_rival(top.foreign, top.reference) < gap) {
      waiting_.push_back(top);
      continue;
    }
    accept(top.foreign, top.reference, true);
  }
}

// One foreign product for several of the reference that read the same value (query, key and value in one MatMul), taken
// apart by a Split: its results are theirs, in the order of the weight's parts, else of execution.
void Correspondence::link_joint_products() {
  for (const std::int32_t f : f_.order) {
    const StructureNode& split = f_.nodes[f];
    if (split.op_type != "Split" || split.outputs.size() < 2 || node_of_[f] >= 0) continue;
    const std::int32_t input = f_.data_inputs(split)[0];
    if (input < 0 || f_.makers(input).size() != 1 || f_.heavy_uses(input).size() != 1) continue;
    const std::int32_t product = f_.makers(input)[0];
    if (!is_product(f_.nodes[product].op_class) || node_of_[product] >= 0) continue;
    const std::int32_t read = f_.data_inputs(f_.nodes[product])[0];
    if (read < 0 || value_of_[read] < 0) continue;
    const std::vector<std::int32_t> units = parts_of(product, value_of_[read]);
    if (units.size() != split.outputs.size()) continue;
    joint_[product] = joint_[f] = units;
    for (std::size_t i = 0; i < units.size(); ++i) {
      for (const std::int32_t r : reference_.nodes_of_unit[units[i]]) {
        if (r_.nodes[r].op_class != f_.nodes[product].op_class || r_.nodes[r].outputs[0] < 0) continue;
        link(f_.loose(split.outputs[i]), r_.loose(r_.nodes[r].outputs[0]));
        break;
      }
    }
  }
}

// The units whose products the joint one does, in order.
std::vector<std::int32_t> Correspondence::parts_of(std::int32_t product, std::int32_t read) const {
  std::vector<std::int32_t> units;
  const auto add = [&](std::int32_t unit) {
    if (std::find(units.begin(), units.end(), unit) == units.end()) units.push_back(unit);
  };
  for (const Evidence& evidence : evidence_[product]) {
    if (evidence.rule == MatchRule::digests && evidence.unit >= 0) add(evidence.unit);
  }
  if (units.size() > 1) return units;
  units.clear();
  for (const StructureUse& use : r_.heavy_uses(read)) {
    if (r_.nodes[use.node].op_class != f_.nodes[product].op_class || use.slot != 0) continue;
    const auto& of_node = reference_.units_of_node[use.node];
    if (of_node.size() == 1 && foreign_node_of_[use.node] < 0) add(of_node[0]);
  }
  std::sort(units.begin(), units.end());
  return units;
}

// Nothing tells these apart: twins. In the order of execution on both sides; in one round only such as lie far from
// each other, since each one that is settled may tell its neighbours apart.
bool Correspondence::break_ties() {
  constexpr std::int32_t far = 64;
  if (position_f_.empty()) {
    position_f_ = positions(f_);
    position_r_ = positions(r_);
  }
  std::vector<Candidate> ties;
  for (Candidate& candidate : waiting_) {
    if (node_of_[candidate.foreign] >= 0 || foreign_node_of_[candidate.reference] >= 0) continue;
    candidate.score = score(candidate.foreign, candidate.reference);
    if (candidate.score + small_gap < best_rival(candidate.foreign, candidate.reference)) continue;
    ties.push_back(candidate);
  }
  std::sort(ties.begin(), ties.end(), [&](const Candidate& a, const Candidate& b) {
    const auto key = [&](const Candidate& each) {
      return std::pair(position_f_[each.foreign], position_r_[each.reference]);
    };
    return key(a) < key(b);
  });
  std::int32_t last = -far;
  bool any = false;
  for (const Candidate& tie : ties) {
    if (position_f_[tie.foreign] - last < far) continue;
    if (node_of_[tie.foreign] >= 0 || foreign_node_of_[tie.reference] >= 0) continue;
    last = position_f_[tie.foreign];
    accept(tie.foreign, tie.reference, false);
    any = true;
  }
  return any;
}

void Correspondence::accept(std::int32_t f, std::int32_t r, bool certain) {
  node_of_[f] = r;
  foreign_node_of_[r] = f;
  certain_[f] = certain;
  link_inputs(f, r);
  link_outputs(f, r);
}

void Correspondence::link(std::int32_t fv, std::int32_t rv) {
  if (fv < 0 || rv < 0 || f_.values[fv].constant || r_.values[rv].constant) return;
  const bool news = value_of_[fv] < 0;
  if (news) value_of_[fv] = rv;
  if (foreign_of_[rv] < 0) foreign_of_[rv] = fv;
  if (value_of_[fv] != rv) return;
  if (!news) return;
  const auto& ours = f_.heavy_uses(fv);
  const auto& theirs = r_.heavy_uses(rv);
  if (ours.size() <= most_readers && theirs.size() <= 4 * most_readers) {
    for (const StructureUse& a : ours) {
      for (const StructureUse& b : theirs) {
        const std::uint16_t op = f_.nodes[a.node].op_class;
        if (op != r_.nodes[b.node].op_class) continue;
        const bool slots_matter =
            !is_commutative(op) && f_.nodes[a.node].inputs.size() == r_.nodes[b.node].inputs.size();
        if (slots_matter && a.slot != b.slot) continue;
        propose(a.node, b.node);
      }
    }
  }
  for (const std::int32_t a : f_.makers(fv)) {
    for (const std::int32_t b : r_.makers(rv)) {
      if (f_.nodes[a].op_class == r_.nodes[b].op_class) propose(a, b);
    }
  }
}

// Cheap arithmetic without weights, of which one side may have more: scaling, masking, an activation. Whatever reads a
// weight is in both files.
bool Correspondence::may_be_stepped_over(const Structure& s, const StructureNode& node) {
  if (!may_be_without_effect(node.op_class)) return false;
  for (const std::int32_t input : node.inputs) {
    if (input < 0 || !s.values[input].constant) continue;
    const std::int32_t tensor = s.root_tensor(input);
    if (tensor >= 0 && s.tensors[tensor].elements() > 1) return false;
  }
  return true;
}

// Values from which `value` is computed by nodes with one data input, nearest first, itself included.
std::vector<std::int32_t> Correspondence::upward(const Structure& s, std::int32_t value) {
  std::vector<std::int32_t> chain = {value};
  for (std::size_t i = 0; i < chain.size() && chain.size() <= 3 * longest_step; ++i) {
    for (const std::int32_t producer : s.makers(chain[i])) {
      if (!may_be_stepped_over(s, s.nodes[producer]) && !is_activation(s.nodes[producer].op_class)) continue;
      std::int32_t only = -1;
      int count = 0;
      for (const std::int32_t input : s.data_inputs(s.nodes[producer])) {
        if (input < 0) continue;
        ++count;
        only = input;
      }
      if (count == 1 && std::find(chain.begin(), chain.end(), only) == chain.end()) chain.push_back(only);
    }
  }
  return chain;
}

std::vector<std::int32_t> Correspondence::downward(const Structure& s, std::int32_t value) {
  std::vector<std::int32_t> chain = {value};
  for (std::size_t i = 0; i < chain.size() && chain.size() <= 3 * longest_step; ++i) {
    const auto& uses = s.heavy_uses(chain[i]);
    if (uses.size() > 4) continue;
    for (const StructureUse& use : uses) {
      const StructureNode& node = s.nodes[use.node];
      if (node.outputs.empty() || node.outputs[0] < 0) continue;
      // What scales and shifts by channel is often folded into the product before it.
      if (!may_be_stepped_over(s, node) && !may_be_folded(node.op_class)) continue;
      const std::int32_t next = s.loose(node.outputs[0]);
      if (std::find(chain.begin(), chain.end(), next) == chain.end()) chain.push_back(next);
    }
  }
  return chain;
}

// The same slot of the same operator: the same value, unless one side computes something more before it. More on our
// side is ours alone. More on the reference's side: an activation or normalization is taken in by the product before
// it, which makes the same value; plain arithmetic is taken in by the reader, or done elsewhere.
void Correspondence::link_up(std::int32_t fv, std::int32_t rv) {
  if (fv < 0 || rv < 0 || value_of_[fv] >= 0) return;
  if (producers_alike(fv, rv)) return link(fv, rv);
  for (const std::int32_t mine : upward(f_, fv)) {
    if (value_of_[mine] < 0 && foreign_of_[rv] < 0 && producers_alike(mine, rv)) return link(mine, rv);
  }
  for (const std::int32_t other : upward(r_, rv)) {
    if (other == rv || foreign_of_[other] >= 0) continue;
    if (!producers_alike(fv, other)) continue;
    if (taken_in_by_product(rv)) {
      link(fv, rv);
      for (const std::int32_t a : f_.makers(fv)) {
        for (const std::int32_t b : r_.makers(other)) {
          if (f_.nodes[a].op_class != r_.nodes[b].op_class) continue;
          bonus_[pair_key(a, b)] += bridged;
          propose(a, b);
        }
      }
      return;
    }
    return link(fv, other);
  }
  if (f_.makers(fv).empty() || r_.makers(rv).empty()) link(fv, rv);
}

void Correspondence::link_down(std::int32_t fv, std::int32_t rv) {
  if (fv < 0 || rv < 0 || value_of_[fv] >= 0) return;
  constexpr double clearly = 0.4;
  double best = consumers_alike(fv, rv);
  std::pair<std::int32_t, std::int32_t> target{fv, rv};
  const auto try_pair = [&](std::int32_t mine, std::int32_t other) {
    if (value_of_[mine] >= 0 || foreign_of_[other] >= 0) return;
    const double alike = consumers_alike(mine, other);
    if (alike <= best + clearly) return;
    best = alike;
    target = {mine, other};
  };
  if (best < 1) {
    for (const std::int32_t other : downward(r_, rv)) try_pair(fv, other);
    for (const std::int32_t mine : downward(f_, fv)) try_pair(mine, rv);
  }
  // What only the foreign file does to a value leaves it the same for the reference: both correspond.
  if (target.first != fv) link(fv, rv);
  if (target.second == rv || taken_in_by_product(target.second)) return link(target.first, target.second);
  // Plain arithmetic of the reference's alone: the readers behind it do it now.
  link(fv, rv);
  for (const StructureUse& a : f_.heavy_uses(fv)) {
    for (const StructureUse& b : r_.heavy_uses(target.second)) {
      if (f_.nodes[a.node].op_class != r_.nodes[b.node].op_class || a.slot != b.slot) continue;
      bonus_[pair_key(a.node, b.node)] += bridged;
      propose(a.node, b.node);
    }
  }
}

// Made by what tools fold into a product before it: an activation, or arithmetic by channel.
bool Correspondence::taken_in_by_product(std::int32_t value) const {
  const auto& makers = r_.makers(value);
  return std::any_of(makers.begin(), makers.end(), [&](std::int32_t maker) {
    return is_activation(r_.nodes[maker].op_class) || !may_be_stepped_over(r_, r_.nodes[maker]);
  });
}

void Correspondence::link_inputs(std::int32_t f, std::int32_t r) {
  const auto a = f_.data_inputs(f_.nodes[f]), b = r_.data_inputs(r_.nodes[r]);
  if (!is_commutative(f_.nodes[f].op_class)) {
    const auto computed = [](const std::vector<std::int32_t>& values) {
      return std::count_if(values.begin(), values.end(), [](std::int32_t value) { return value >= 0; });
    };
    // Skip...Normalization adds before it normalizes.
    const bool adds_first = f_.nodes[f].op_type.starts_with("Skip") && !r_.nodes[r].op_type.starts_with("Skip");
    if (computed(a) == 1 && computed(b) == 1 && adds_first) {
      link_behind_sum(*std::max_element(a.begin(), a.end()), *std::max_element(b.begin(), b.end()));
    } else if (computed(a) == computed(b) && a.size() == b.size()) {
      for (std::size_t i = 0; i < a.size(); ++i) link_up(a[i], b[i]);
    } else if (computed(a) == 1 && computed(b) == 1) {
      link_up(*std::max_element(a.begin(), a.end()), *std::max_element(b.begin(), b.end()));
    } else {
      link_unlike_inputs(a, b);
    }
    return;
  }
  std::vector<std::int32_t> ours, theirs;
  for (const std::int32_t value : a) {
    if (value >= 0 && value_of_[value] < 0) ours.push_back(value);
  }
  for (const std::int32_t value : b) {
    if (value >= 0 && foreign_of_[value] < 0) theirs.push_back(value);
  }
  if (ours.size() == 1 && theirs.size() == 1) return link_up(ours[0], theirs[0]);
  if (ours.size() == 2 && theirs.size() == 2) {
    const bool straight = producers_alike(ours[0], theirs[0]) && producers_alike(ours[1], theirs[1]);
    const bool crossed = producers_alike(ours[0], theirs[1]) && producers_alike(ours[1], theirs[0]);
    if (straight == crossed) return;
    link_up(ours[0], theirs[straight ? 0 : 1]);
    link_up(ours[1], theirs[straight ? 1 : 0]);
  }
}

// The operand of the sum `rv` that is made like `fv`: the other is a constant that the foreign node reads itself.
void Correspondence::link_behind_sum(std::int32_t fv, std::int32_t rv) {
  for (const std::int32_t maker : r_.makers(rv)) {
    for (const std::int32_t input : r_.data_inputs(r_.nodes[maker])) {
      if (input >= 0 && value_of_[fv] < 0 && producers_alike(fv, input)) return link(fv, input);
    }
  }
}

// One side reads more than the other, which computes it first: SkipLayerNormalization(a, b) and
// LayerNormalization(Add(a, b)). Pairs what is made alike, and only where there is no choice.
void Correspondence::link_unlike_inputs(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  std::vector<std::int32_t> theirs;
  for (const std::int32_t value : b) {
    if (value >= 0) theirs.push_back(value);
  }
  for (std::size_t i = 0; i < theirs.size() && theirs.size() < 16; ++i) {
    for (const std::int32_t maker : r_.makers(theirs[i])) {
      if (!may_be_stepped_over(r_, r_.nodes[maker])) continue;
      for (const std::int32_t input : r_.data_inputs(r_.nodes[maker])) {
        if (input >= 0 && std::find(theirs.begin(), theirs.end(), input) == theirs.end()) theirs.push_back(input);
      }
    }
  }
  for (const std::int32_t mine : a) {
    if (mine < 0 || value_of_[mine] >= 0 || f_.makers(mine).empty()) continue;
    std::int32_t only = -1;
    int count = 0;
    for (const std::int32_t other : theirs) {
      if (foreign_of_[other] >= 0 || !producers_alike(mine, other)) continue;
      only = other;
      ++count;
    }
    const auto rivals = std::count_if(a.begin(), a.end(), [&](std::int32_t other) {
      return other >= 0 && other != mine && only >= 0 && value_of_[other] < 0 && producers_alike(other, only);
    });
    if (count == 1 && rivals == 0) link(mine, only);
  }
}

void Correspondence::link_outputs(std::int32_t f, std::int32_t r) {
  const StructureNode& ours = f_.nodes[f];
  const StructureNode& theirs = r_.nodes[r];
  for (std::size_t i = 0; i < ours.outputs.size() && i < theirs.outputs.size(); ++i) {
    link_down(f_.loose(ours.outputs[i]), r_.loose(theirs.outputs[i]));
  }
  // Skip...Normalization also hands on the sum that it normalizes.
  constexpr std::size_t sum = 3;
  if (ours.op_type.starts_with("Skip") && ours.outputs.size() > sum && !theirs.op_type.starts_with("Skip")) {
    for (const std::int32_t input : r_.data_inputs(theirs)) {
      if (input >= 0) link(f_.loose(ours.outputs[sum]), input);
    }
  }
}

// ---- over what the two sides spell differently ----------------------------------------------------------------------

namespace {

struct Nearest {
  std::int32_t node = -1;
  int distance = 0;
  bool several = false;  // at that distance
};

}  // namespace

// The nearest node without partner of each operator, from a value upwards or downwards.
class Correspondence::Lookout {
 public:
  Lookout(const Structure& s, const std::vector<std::int32_t>& partners, bool down)
      : s_(s), partners_(partners), down_(down) {}

  std::map<std::uint16_t, Nearest> from(std::int32_t value, const auto& same) {
    std::map<std::uint16_t, Nearest> found;
    std::vector<std::pair<std::int32_t, int>> values = {{value, 0}};
    std::vector<std::int32_t> seen;
    for (std::size_t i = 0; i < values.size() && seen.size() < most_nodes; ++i) {
      const auto [at, distance] = values[i];
      if (distance >= farthest) break;
      for (const std::int32_t node : next(at)) {
        if (partners_[node] >= 0 || std::find(seen.begin(), seen.end(), node) != seen.end()) continue;
        seen.push_back(node);
        Nearest& entry = found[s_.nodes[node].op_class];
        if (entry.node < 0) {
          entry = {node, distance, false};
        } else if (entry.distance == distance && !same(entry.node, node)) {
          entry.several = true;
        }
        for (const std::int32_t beyond : results(node)) values.emplace_back(beyond, distance + 1);
      }
    }
    return found;
  }

 private:
  static constexpr std::size_t most_nodes = 32;
  static constexpr int farthest = 8;

  std::vector<std::int32_t> next(std::int32_t value) const {
    if (!down_) return s_.makers(value);
    std::vector<std::int32_t> nodes;
    if (s_.heavy_uses(value).size() > most_readers) return nodes;
    for (const StructureUse& use : s_.heavy_uses(value)) nodes.push_back(use.node);
    return nodes;
  }

  std::vector<std::int32_t> results(std::int32_t node) const {
    std::vector<std::int32_t> values;
    if (down_) {
      for (const std::int32_t output : s_.nodes[node].outputs) {
        if (output >= 0) values.push_back(s_.loose(output));
      }
      return values;
    }
    for (const std::int32_t input : s_.data_inputs(s_.nodes[node])) {
      if (input >= 0) values.push_back(input);
    }
    return values;
  }

  const Structure& s_;
  const std::vector<std::int32_t>& partners_;
  bool down_;
};

// Where growth stopped, looks past nodes without partner for an operator whose nearest occurrence is one on each side:
// from values that correspond, and upwards from operands of corresponding nodes that do not. Proposes these pairs; true
// when there are new ones.
bool Correspondence::bridge() {
  const std::size_t before = queue_.size();
  const auto from = [&](std::int32_t fv, std::int32_t rv, bool down) {
    const auto mine = Lookout(f_, node_of_, down).from(fv, [](std::int32_t, std::int32_t) { return false; });
    if (mine.empty()) return;
    const auto others =
        Lookout(r_, foreign_node_of_, down).from(rv, [&](std::int32_t a, std::int32_t b) { return same_units(a, b); });
    for (const auto& [op, near] : mine) {
      const auto other = others.find(op);
      if (near.several || other == others.end() || other->second.several) continue;
      if (is_commutative(op)) continue;  // too common to mean anything at a distance
      double& bonus = bonus_[pair_key(near.node, other->second.node)];
      if (bonus >= 2 * bridged) continue;
      bonus += bridged;
      propose(near.node, other->second.node);
    }
  };
  for (std::size_t fv = 0; fv < value_of_.size(); ++fv) {
    if (value_of_[fv] < 0) continue;
    from(static_cast<std::int32_t>(fv), value_of_[fv], true);
    from(static_cast<std::int32_t>(fv), value_of_[fv], false);
  }
  for (std::size_t f = 0; f < node_of_.size(); ++f) {
    if (node_of_[f] < 0) continue;
    const auto a = f_.data_inputs(f_.nodes[f]), b = r_.data_inputs(r_.nodes[node_of_[f]]);
    for (std::size_t i = 0; i < a.size() && a.size() == b.size(); ++i) {
      if (a[i] >= 0 && b[i] >= 0 && value_of_[a[i]] < 0 && foreign_of_[b[i]] < 0) from(a[i], b[i], false);
    }
  }
  return queue_.size() > before;
}

}  // namespace whence
