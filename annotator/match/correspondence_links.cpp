// Follows an accepted pair to the values around it, also over nodes that only one side has.
#include <algorithm>
#include <utility>

#include "annotator/match/correspondence.h"
#include "annotator/match/correspondence_weights.h"
#include "annotator/match/op_class.h"

namespace whence::match {
namespace {

constexpr int longest_step = 3;       // nodes that growth steps over on one side
constexpr std::size_t few_uses = 4;   // growth does not step over the readers of a value with more uses
constexpr std::size_t addend = 3;     // the input that a convolution of ONNX Runtime adds
constexpr std::size_t max_forms = 5;  // in which a reference spells one operation; each form uses the same value

// True for cheap arithmetic without weights, which one side may have more of: scaling, masking, an activation. Nodes
// that read a weight, or values computed from weights by channel, are in both files.
template <Side S>
bool may_be_stepped_over(const Structure<S>& s, NodeIndex<S> node) {
  return may_be_without_effect(s.nodes[node].op_class) && !s.reads_weights(node);
}

// Values from which `value` is computed by nodes with one data input, nearest first, itself included.
template <Side S>
std::vector<ValueIndex<S>> upward(const Structure<S>& s, ValueIndex<S> value) {
  std::vector<ValueIndex<S>> chain = {value};
  for (std::size_t i = 0; i < chain.size() && chain.size() <= 3 * longest_step; ++i) {
    for (const NodeIndex<S> producer : s.makers(chain[i])) {
      if (!may_be_stepped_over(s, producer) && !is_activation(s.nodes[producer].op_class)) continue;
      ValueIndex<S> only;
      int count = 0;
      for (const ValueIndex<S> input : s.data_inputs(producer)) {
        if (!input.exists()) continue;
        ++count;
        only = input;
      }
      if (count == 1 && std::find(chain.begin(), chain.end(), only) == chain.end()) chain.push_back(only);
    }
  }
  return chain;
}

template <Side S>
std::vector<ValueIndex<S>> downward(const Structure<S>& s, ValueIndex<S> value, std::size_t max_uses) {
  std::vector<ValueIndex<S>> chain = {value};
  for (std::size_t i = 0; i < chain.size() && chain.size() <= 3 * longest_step; ++i) {
    const auto& uses = s.heavy_uses(chain[i]);
    if (uses.size() > max_uses) continue;
    for (const auto& use : uses) {
      const auto& node = s.nodes[use.node];
      if (node.outputs.empty() || !node.outputs[0].exists()) continue;
      // A node that scales or shifts by channel is often folded into the product before it.
      if (!may_be_stepped_over(s, use.node) && !may_be_folded(node.op_class)) continue;
      const ValueIndex<S> next = s.loose(node.outputs[0]);
      if (std::find(chain.begin(), chain.end(), next) == chain.end()) chain.push_back(next);
    }
  }
  return chain;
}

}  // namespace

void Correspondence::link(ForeignValue fv, ReferenceValue rv) {
  if (!fv.exists() || !rv.exists() || f_.values[fv].constant || r_.values[rv].constant) return;
  const bool news = !value_of_[fv].exists();
  if (news) {
    value_of_[fv] = rv;
    value_certain_[fv] = linking_certain_;
    value_tie_scope_[fv] = linking_scope_;
  }
  if (!foreign_of_[rv].exists()) foreign_of_[rv] = fv;
  if (value_of_[fv] != rv) return;
  if (!news) return;
  const auto& f_uses = f_.heavy_uses(fv);
  const auto& r_uses = r_.heavy_uses(rv);
  if (f_uses.size() <= max_readers && r_uses.size() <= 4 * max_readers) {
    for (const auto& a : f_uses) {
      for (const auto& b : r_uses) {
        const std::uint16_t op = f_.nodes[a.node].op_class;
        if (op != r_.nodes[b.node].op_class) continue;
        const bool slots_matter =
            !f_.nodes[a.node].commutative && f_.nodes[a.node].inputs.size() == r_.nodes[b.node].inputs.size();
        if (slots_matter && a.slot != b.slot) continue;
        propose(a.node, b.node);
      }
    }
  }
  for (const ForeignNode a : f_.makers(fv)) {
    for (const ReferenceNode b : r_.makers(rv)) {
      if (f_.nodes[a].op_class == r_.nodes[b].op_class) propose(a, b);
    }
  }
}

// Two values in the same slot of the same operator are the same value, unless one side computes something more before
// it. An extra step of the foreign file stays without a partner. An extra step of the reference: an activation or
// normalization is taken in by the product before it, which makes the same value; plain arithmetic is taken in by the
// reader, or done elsewhere.
void Correspondence::link_up(ForeignValue fv, ReferenceValue rv) {
  if (!fv.exists() || !rv.exists() || value_of_[fv].exists()) return;
  if (producers_alike(fv, rv)) return link(fv, rv);
  for (const ForeignValue mine : upward(f_, fv)) {
    if (!value_of_[mine].exists() && !foreign_of_[rv].exists() && producers_alike(mine, rv)) return link(mine, rv);
  }
  for (const ReferenceValue other : upward(r_, rv)) {
    if (other == rv || foreign_of_[other].exists()) continue;
    if (!producers_alike(fv, other)) continue;
    if (taken_in_by_product(rv)) {
      link(fv, rv);
      for (const ForeignNode a : f_.makers(fv)) {
        for (const ReferenceNode b : r_.makers(other)) {
          if (f_.nodes[a].op_class != r_.nodes[b].op_class) continue;
          bonus_[pair_key(a, b)] += bridged;
          propose(a, b);
        }
      }
      return;
    }
    return link(fv, behind_scalings(fv, other));
  }
  if (f_.makers(fv).empty() || r_.makers(rv).empty()) link(fv, rv);
}

void Correspondence::link_down(ForeignValue fv, ReferenceValue rv) {
  if (!fv.exists() || !rv.exists() || value_of_[fv].exists()) return;
  constexpr double clearly = 0.4;
  double best = consumers_alike(fv, rv);
  std::pair target{fv, rv};
  const auto try_pair = [&](ForeignValue mine, ReferenceValue other) {
    if (value_of_[mine].exists() || foreign_of_[other].exists()) return;
    const double alike = consumers_alike(mine, other);
    if (alike <= best + clearly) return;
    best = alike;
    target = {mine, other};
  };
  if (best < 1) {
    for (const ReferenceValue other : downward(r_, rv, max_forms * few_uses)) try_pair(fv, other);
    for (const ForeignValue mine : downward(f_, fv, few_uses)) try_pair(mine, rv);
  }
  if (best == 0) {
    // No readers are alike: nodes that read weights by channel are in both files, but folded into the product in this
    // one.
    if (const ReferenceValue behind = behind_folded(fv, rv); behind != rv) return link(fv, behind);
  }
  // A step that only the foreign file has does not count: the values before and behind it both correspond to `rv`.
  if (target.first != fv) link(fv, rv);
  if (target.second == rv || taken_in_by_product(target.second)) return link(target.first, target.second);
  // Plain arithmetic that only the reference has: the product took it in, or the readers behind it do it now.
  const ReferenceValue behind = target.first == fv ? behind_scalings(fv, rv) : rv;
  link(fv, behind);
  if (behind == target.second) return;
  for (const auto& a : f_.heavy_uses(fv)) {
    for (const auto& b : r_.heavy_uses(target.second)) {
      if (f_.nodes[a.node].op_class != r_.nodes[b.node].op_class || a.slot != b.slot) continue;
      bonus_[pair_key(a.node, b.node)] += bridged;
      propose(a.node, b.node);
    }
  }
}

// Returns true for a value made by a node that tools fold into the product before it: an activation, or arithmetic by
// channel.
bool Correspondence::taken_in_by_product(ReferenceValue value) const {
  const auto& makers = r_.makers(value);
  return std::any_of(makers.begin(), makers.end(), [&](ReferenceNode maker) {
    return is_activation(r_.nodes[maker].op_class) || !may_be_stepped_over(r_, maker);
  });
}

// Returns the value that a convolution of ONNX Runtime adds to its result; none for a node that adds none.
ForeignValue Correspondence::added_value(ForeignNode f) const {
  const auto& node = f_.nodes[f];
  if (!origin::is_of_runtime(node.domain) || !is_product(node.op_class)) return {};
  const auto inputs = f_.data_inputs(f);
  return inputs.size() > addend ? inputs[addend] : ForeignValue();
}

// Returns true for a convolution of ONNX Runtime that adds the value to its result.
bool Correspondence::adds(const StructureUse<Side::foreign>& use) const {
  return use.slot == static_cast<int>(addend) && added_value(use.node).exists();
}

// Returns true if the reader cannot have taken in a scaling of the value: a plain operator, or a sum.
bool Correspondence::reads_as_it_is(const StructureUse<Side::foreign>& use) const {
  return f_.nodes[use.node].domain.empty() || adds(use);
}

// Returns true if a scaling can only have been taken in by the product that makes `fv`: the product states one, or it
// has weights, and all readers are plain operators, not fused ones or products with weights, which could have taken it
// in, too.
bool Correspondence::may_have_taken_in(ForeignValue fv) const {
  const auto weighs = [&](ForeignNode node) { return is_product(f_.nodes[node].op_class) && f_.reads_weights(node); };
  const auto& makers = f_.makers(fv);
  if (std::ranges::any_of(makers, [&](ForeignNode node) { return f_.nodes[node].scales; })) return true;
  return std::ranges::any_of(makers, weighs) && std::ranges::all_of(f_.heavy_uses(fv), [&](const auto& use) {
           return reads_as_it_is(use) && (adds(use) || !weighs(use.node));
         });
}

// Returns true if the node scales or shifts and is an operation of its own, not part of how another one is spelled.
bool Correspondence::is_own_scaling(ReferenceNode r) const {
  const auto& units = reference_.units_of_node[r];
  if (units.size() != 1 || !may_be_folded(r_.nodes[r].op_class)) return false;
  const auto& nodes = reference_.nodes_of_unit[units.front()];
  return std::ranges::all_of(nodes, [&](ReferenceNode node) {
    return reference_.units_of_node[node].size() > 1 || may_be_folded(r_.nodes[node].op_class);
  });
}

// Returns the value behind the scalings that directly follow the product `rv` in the reference, each an operation of
// its own, if the foreign product took them in, as its readers do not scale. Returns `rv` itself when there are none.
ReferenceValue Correspondence::behind_scalings(ForeignValue fv, ReferenceValue rv) const {
  ReferenceValue value = rv;
  for (int step = 0; may_have_taken_in(fv) && step < longest_step; ++step) {
    const auto& uses = r_.heavy_uses(value);
    const bool scaled = !uses.empty() && std::ranges::all_of(uses, [&](const auto& use) {
      if (!use.node.exists() || !is_own_scaling(use.node) || !same_units(use.node, uses.front().node)) return false;
      const auto read = r_.data_inputs(use.node);
      return std::ranges::count_if(read, [](ReferenceValue input) { return input.exists(); }) == 1;
    });
    const auto alike = [&](const auto& use) {
      return f_.nodes[use.node].op_class == r_.nodes[uses.front().node].op_class;
    };
    if (!scaled || std::ranges::any_of(f_.heavy_uses(fv), alike)) break;
    const auto& next = r_.nodes[uses.front().node];
    if (next.outputs.empty() || !next.outputs[0].exists() || foreign_of_[r_.loose(next.outputs[0])].exists()) break;
    value = r_.loose(next.outputs[0]);
  }
  return value;
}

// Returns the value behind the arithmetic with weights that follows the product `rv` in the reference and does not
// follow `fv`: the foreign product took it in, since its readers are plain operators, which cannot. Returns `rv` itself
// when there is none.
ReferenceValue Correspondence::behind_folded(ForeignValue fv, ReferenceValue rv) const {
  const auto scales = [](const auto& s, auto node) {
    return may_be_folded(s.nodes[node].op_class) && s.reads_weights(node);
  };
  const auto& products = f_.makers(fv);
  const bool weights = !products.empty() && std::ranges::all_of(products, [&](ForeignNode maker) {
    return is_product(f_.nodes[maker].op_class) && f_.reads_weights(maker);
  });
  const auto& f_uses = f_.heavy_uses(fv);
  const bool may_have = weights && !f_uses.empty() && std::ranges::none_of(f_uses, [&](const auto& use) {
                          return !use.node.exists() || !reads_as_it_is(use) || scales(f_, use.node);
                        });
  ReferenceValue value = rv;
  for (int step = 0; may_have && step < longest_step; ++step) {
    const auto& uses = r_.heavy_uses(value);
    if (uses.empty() || !std::ranges::all_of(uses, [&](const auto& use) {
          return use.node.exists() && scales(r_, use.node) && same_units(use.node, uses.front().node);
        })) {
      break;
    }
    const auto& next = r_.nodes[uses.front().node];
    if (next.outputs.empty() || !next.outputs[0].exists() || foreign_of_[r_.loose(next.outputs[0])].exists()) break;
    value = r_.loose(next.outputs[0]);
  }
  return value;
}

// Returns, for a convolution with an added_value(), the sum that follows the reference's convolution, and what is added
// in it; none for another node, and where no sum is seen.
std::optional<Correspondence::Residual> Correspondence::residual_of(ForeignNode f, ReferenceNode r) const {
  if (!added_value(f).exists() || !f_.reads_weights(f) || r_.nodes[r].outputs.empty()) return {};
  ReferenceValue value = r_.loose(r_.nodes[r].outputs[0]);
  for (int step = 0; step < longest_step && value.exists(); ++step) {
    const auto& uses = r_.heavy_uses(value);
    if (uses.empty()) return {};
    const ReferenceNode next = uses.front().node;  // the others are other forms of it
    if (!std::ranges::all_of(uses, [&](const auto& use) { return same_units(use.node, next); })) return {};
    if (r_.nodes[next].outputs.empty()) return {};
    const ReferenceValue result = r_.loose(r_.nodes[next].outputs[0]);
    const auto read = r_.data_inputs(next);
    if (r_.nodes[next].op_type == "Add" && read.size() == 2 && read[0].exists() && read[1].exists()) {
      return Residual{result, read[0] == value ? read[1] : read[0]};
    }
    if (!r_.reads_weights(next)) return {};
    value = result;
  }
  return {};
}

void Correspondence::link_inputs(ForeignNode f, ReferenceNode r) {
  const auto a = f_.data_inputs(f);
  const auto b = r_.data_inputs(r);
  if (const auto residual = residual_of(f, r)) {
    link_up(a[0], b[0]);
    link_up(added_value(f), residual->addend);
    return;
  }
  const auto computed = [](const auto& values) {
    return std::ranges::count_if(values, [](auto value) { return value.exists(); });
  };
  if (!f_.nodes[f].commutative || !r_.nodes[r].commutative) {
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
  std::vector<ForeignValue> f_open;
  std::vector<ReferenceValue> r_open;
  for (const ForeignValue value : a) {
    if (value.exists() && !value_of_[value].exists()) f_open.push_back(value);
  }
  for (const ReferenceValue value : b) {
    if (value.exists() && !foreign_of_[value].exists()) r_open.push_back(value);
  }
  if (f_open.size() == 1 && r_open.size() == 1) return link_up(f_open[0], r_open[0]);
  if (f_open.size() == 2 && r_open.size() == 2) {
    const bool straight = producers_alike(f_open[0], r_open[0]) && producers_alike(f_open[1], r_open[1]);
    const bool crossed = producers_alike(f_open[0], r_open[1]) && producers_alike(f_open[1], r_open[0]);
    if (straight == crossed) return;
    link_up(f_open[0], r_open[straight ? 0 : 1]);
    link_up(f_open[1], r_open[straight ? 1 : 0]);
  }
}

// An input that the partner does not read may be there in another form of it: a Pad that one form of a convolution has
// taken in.
void Correspondence::link_inputs_of_other_forms(ForeignNode f, ReferenceNode r) {
  if (!is_product(r_.nodes[r].op_class)) return;
  const auto mine = f_.data_inputs(f);
  for (const UnitIndex unit : reference_.units_of_node[r]) {
    for (const ReferenceNode other : reference_.nodes_of_unit[unit]) {
      const auto read = r_.data_inputs(other);
      if (other == r || r_.nodes[other].op_class != r_.nodes[r].op_class) continue;
      for (std::size_t i = 0; i < std::min(mine.size(), read.size()); ++i) {
        if (!mine[i].exists() || !read[i].exists() || value_of_[mine[i]].exists() || foreign_of_[read[i]].exists())
          continue;
        if (!f_.makers(mine[i]).empty() && producers_alike(mine[i], read[i])) link(mine[i], read[i]);
      }
    }
  }
}

// Links `fv` to the operand of the sum `rv` that is made like it: the other operand is a constant that the foreign node
// reads itself.
void Correspondence::link_behind_sum(ForeignValue fv, ReferenceValue rv) {
  for (const ReferenceNode maker : r_.makers(rv)) {
    for (const ReferenceValue input : r_.data_inputs(maker)) {
      if (input.exists() && !value_of_[fv].exists() && producers_alike(fv, input)) return link(fv, input);
    }
  }
}

// Links inputs when one side's node reads values that the other side combines first: SkipLayerNormalization(a, b) and
// LayerNormalization(Add(a, b)). Links values that are made alike, and only where there is no choice.
void Correspondence::link_unlike_inputs(const std::vector<ForeignValue>& a, const std::vector<ReferenceValue>& b) {
  std::vector<ReferenceValue> candidates;
  for (const ReferenceValue value : b) {
    if (value.exists()) candidates.push_back(value);
  }
  for (std::size_t i = 0; i < candidates.size() && candidates.size() < 16; ++i) {
    for (const ReferenceNode maker : r_.makers(candidates[i])) {
      if (!may_be_stepped_over(r_, maker)) continue;
      for (const ReferenceValue input : r_.data_inputs(maker)) {
        if (input.exists() && std::find(candidates.begin(), candidates.end(), input) == candidates.end())
          candidates.push_back(input);
      }
    }
  }
  for (const ForeignValue mine : a) {
    if (!mine.exists() || value_of_[mine].exists() || f_.makers(mine).empty()) continue;
    ReferenceValue only;
    int count = 0;
    for (const ReferenceValue other : candidates) {
      if (foreign_of_[other].exists() || !producers_alike(mine, other)) continue;
      only = other;
      ++count;
    }
    const auto rivals = std::count_if(a.begin(), a.end(), [&](ForeignValue other) {
      return other.exists() && other != mine && only.exists() && !value_of_[other].exists() &&
             producers_alike(other, only);
    });
    if (count == 1 && rivals == 0) link(mine, only);
  }
}

void Correspondence::link_outputs(ForeignNode f, ReferenceNode r) {
  const auto& f_node = f_.nodes[f];
  const auto& r_node = r_.nodes[r];
  if (const auto residual = residual_of(f, r)) return link_down(f_.loose(f_node.outputs[0]), residual->sum);
  for (std::size_t i = 0; i < f_node.outputs.size() && i < r_node.outputs.size(); ++i) {
    link_down(f_.loose(f_node.outputs[i]), r_.loose(r_node.outputs[i]));
  }
  // Skip...Normalization also hands on the sum that it normalizes.
  constexpr std::size_t sum = 3;
  if (f_node.op_type.starts_with("Skip") && f_node.outputs.size() > sum && !r_node.op_type.starts_with("Skip")) {
    for (const ReferenceValue input : r_.data_inputs(r)) {
      if (input.exists()) link(f_.loose(f_node.outputs[sum]), input);
    }
  }
}

}  // namespace whence::match
