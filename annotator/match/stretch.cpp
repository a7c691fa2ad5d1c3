// Computing nodes without partner lie in stretches between values that correspond: the two sides spell something
// differently there (an activation, a normalization, a fused attention). The reference's nodes between the same values
// say which units the stretch stands for; where these are several, operators that both have align in execution order.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "annotator/match/op_class.h"
#include "annotator/match/placement.h"

namespace whence::match {

using origin::Confidence;

namespace {

constexpr std::size_t longest = 400;  // nodes of a stretch on either side

class Stretch {
 public:
  Stretch(Placement& placement, const std::vector<std::int32_t>& position_f,
          const std::vector<std::int32_t>& position_r)
      : placement_(placement),
        f_(placement.foreign),
        r_(placement.reference.structure),
        position_f_(position_f),
        position_r_(position_r) {}

  // All nodes without partner that hang together with `start`.
  void collect(std::int32_t start, std::vector<bool>& seen) {
    nodes_ = {start};
    seen[start] = true;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const StructureNode& node = f_.nodes[nodes_[i]];
      for (const std::int32_t input : f_.data_inputs(node)) {
        if (input < 0) continue;
        if (placement_.pairs.value(input) >= 0) {
          certain_ = certain_ && placement_.pairs.certain_value(input);
          above_.push_back(placement_.pairs.value(input));
          continue;
        }
        open_ = open_ || f_.makers(input).empty();
        for (const std::int32_t producer : f_.makers(input)) join(producer, seen);
      }
      for (const std::int32_t output : node.outputs) {
        const std::int32_t value = f_.loose(output);
        if (value < 0) continue;
        if (placement_.pairs.value(value) >= 0) {
          certain_ = certain_ && placement_.pairs.certain_value(value);
          below_.push_back(placement_.pairs.value(value));
          continue;
        }
        for (const StructureUse& use : f_.heavy_uses(value)) {
          join(use.node, seen);
          see_operand(use);
        }
      }
    }
    std::sort(nodes_.begin(), nodes_.end(), [&](auto a, auto b) { return position_f_[a] < position_f_[b]; });
    // A value that corresponds to the same as one above: what lies between is the foreign file's alone.
    std::erase_if(below_,
                  [&](std::int32_t value) { return std::find(above_.begin(), above_.end(), value) != above_.end(); });
  }

  void place() {
    if (nodes_.size() == 1 && place_beside(nodes_.front())) return;
    if (below_.empty() && place_with_neighbours()) return;
    find_reference_nodes();
    if (theirs_.empty()) {
      place_with_neighbours();
      return;
    }
    std::vector<std::int32_t> all;
    for (const std::int32_t r : theirs_) {
      const auto& units = placement_.reference.units_of_node[r];
      all.insert(all.end(), units.begin(), units.end());
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (placement_.one_scope(all)) {
      if (may_stand_for(all)) {
        for (const std::int32_t f : nodes_) place_one(f, all);
        return;
      }
      if (place_with_neighbours()) return;
    }
    align(all);
  }

 private:
  void join(std::int32_t node, std::vector<bool>& seen) {
    if (seen[node] || placement_.placed(node) || f_.nodes[node].kind != NodeKind::heavy) return;
    seen[node] = true;
    nodes_.push_back(node);
  }

  // The same operand of a corresponding reader is where the stretch ends in the reference.
  void see_operand(const StructureUse& use) {
    const std::int32_t partner = placement_.pairs.node(use.node);
    if (partner < 0) return;
    const auto ours = f_.data_inputs(f_.nodes[use.node]), theirs = r_.data_inputs(r_.nodes[partner]);
    const auto slot = static_cast<std::size_t>(use.slot);
    const bool same_slots = ours.size() == theirs.size() || is_product(f_.nodes[use.node].op_class);
    if (!same_slots || slot >= theirs.size() || theirs[slot] < 0) return;
    if (is_commutative(f_.nodes[use.node].op_class)) return;
    if (placement_.pairs.foreign_value(theirs[slot]) < 0) below_.push_back(theirs[slot]);
  }

  // A node that growth stepped over on both sides: the reference has one operator of this kind on the same value, too.
  bool place_beside(std::int32_t f) {
    for (const std::int32_t input : f_.data_inputs(f_.nodes[f])) {
      if (input < 0 || placement_.pairs.value(input) < 0) continue;
      std::int32_t only = -1;
      for (const StructureUse& use : r_.heavy_uses(placement_.pairs.value(input))) {
        if (r_.nodes[use.node].op_class != f_.nodes[f].op_class) continue;
        if (placement_.pairs.foreign_node(use.node) >= 0) continue;
        const auto& units = placement_.reference.units_of_node[use.node];
        if (only >= 0 && placement_.reference.units_of_node[only] != units) return false;
        only = use.node;
      }
      if (only < 0) continue;
      placement_.place(f, placement_.reference.units_of_node[only], Confidence::inferred, MatchRule::structure);
      return true;
    }
    return false;
  }

  // Nodes that only the foreign file has: all around them is of one scope; else only a module around that of their
  // neighbours is known, of those that use such operators first, and of what reads them before what they read.
  bool place_with_neighbours() {
    std::vector<std::int32_t> before, after;
    for (const std::int32_t f : nodes_) {
      for (const std::int32_t other : computing(f, false)) before.push_back(other);
      for (const std::int32_t other : computing(f, true)) after.push_back(other);
    }
    const auto take = [&](std::int32_t f, std::int32_t from, Confidence confidence) {
      placement_.matches[f] = placement_.matches[from];
      placement_.matches[f].confidence = std::max(confidence, placement_.matches[from].confidence);
      placement_.matches[f].rule = MatchRule::dataflow;
    };
    if (before.empty() || after.empty()) return false;
    std::vector<std::int32_t> around = before;
    around.insert(around.end(), after.begin(), after.end());
    const bool one = std::all_of(around.begin(), around.end(), [&](std::int32_t other) {
      return placement_.matches[other].scope == placement_.matches[around.front()].scope;
    });
    for (const std::int32_t f : nodes_) {
      std::int32_t from = one ? around.front() : placement_.speaker_for(f, after);
      if (from < 0) from = placement_.speaker_for(f, before);
      if (from < 0) from = after.front();
      take(f, from, one ? Confidence::inferred : Confidence::ancestor);
    }
    return true;
  }

  // Placed computing nodes next to `f`, through rearrangements.
  std::vector<std::int32_t> computing(std::int32_t f, bool down) const {
    std::vector<std::int32_t> found;
    const auto see = [&](std::int32_t node) {
      if (f_.nodes[node].kind == NodeKind::heavy && placement_.placed(node)) found.push_back(node);
    };
    if (down) {
      for (const std::int32_t output : f_.nodes[f].outputs) {
        if (output < 0) continue;
        for (const StructureUse& use : f_.heavy_uses(f_.loose(output))) see(use.node);
      }
    } else {
      for (const std::int32_t input : f_.data_inputs(f_.nodes[f])) {
        if (input < 0) continue;
        for (const std::int32_t producer : f_.makers(input)) see(producer);
      }
    }
    return found;
  }

  // Returns true if `units`, all of one scope, can be what the stretch does. Where the stretch computes from a value of
  // a module below that scope and the reference's nodes do not, they stand for a part of it: for the mask of an
  // attention whose product comes in by another way, not for the attention.
  bool may_stand_for(const std::vector<std::int32_t>& units) const {
    const std::int32_t scope = placement_.scope_of(units);
    return !open_ && std::ranges::none_of(above_, [&](std::int32_t value) {
      return std::ranges::find(read_, value) == read_.end() && is_made_below(scope, value);
    });
  }

  bool is_made_below(std::int32_t scope, std::int32_t value) const {
    return std::ranges::any_of(r_.makers(value), [&](std::int32_t maker) {
      const std::int32_t made_in = placement_.scope_of(placement_.reference.units_of_node[maker]);
      return made_in >= 0 && made_in != scope && placement_.reference.common_scope(scope, made_in) == scope;
    });
  }

  // A node between values of one scope: of a single unit when there is but one, else the scope's.
  void place_one(std::int32_t f, const std::vector<std::int32_t>& units) {
    std::vector<std::int32_t> all = units;
    const std::vector<std::int32_t> biased = biases_taken_in(placement_, f, 0);
    all.insert(all.end(), biased.begin(), biased.end());
    placement_.place(f, all, certain_ ? Confidence::matched : Confidence::inferred,
                     biased.empty() ? MatchRule::dataflow : MatchRule::cone);
    placement_.matches[f].shared = biased.empty() && units.size() > 1;
  }

  void find_reference_nodes() {
    std::unordered_set<std::int32_t> seen;
    std::vector<std::int32_t> values = below_;
    for (std::size_t i = 0; i < values.size() && theirs_.size() < longest; ++i) {
      for (const std::int32_t producer : r_.makers(values[i])) {
        if (r_.nodes[producer].kind != NodeKind::heavy || !seen.insert(producer).second) continue;
        theirs_.push_back(producer);
        for (const std::int32_t input : r_.data_inputs(r_.nodes[producer])) {
          if (input < 0) continue;
          (placement_.pairs.foreign_value(input) < 0 ? values : read_).push_back(input);
        }
      }
    }
    order_theirs();
  }

  void order_theirs() {
    std::sort(theirs_.begin(), theirs_.end(), [&](auto a, auto b) {
      const auto key = [&](std::int32_t r) {
        const auto& units = placement_.reference.units_of_node[r];
        return std::pair(units.empty() ? 0 : units.front(), position_r_[r]);
      };
      return key(a) < key(b);
    });
  }

  // Right five times out of six as measured by tests/accuracy, which is less than `inferred` promises.
  void align(const std::vector<std::int32_t>& all) {
    if (nodes_.size() > longest) return;
    const auto pairs = align_sequences(nodes_.size(), theirs_.size(), [&](std::size_t i, std::size_t j) {
      return f_.nodes[nodes_[i]].op_class == r_.nodes[theirs_[j]].op_class ? 1 : 0;
    });
    for (const auto& [i, j] : pairs) {
      placement_.place(nodes_[i], placement_.reference.units_of_node[theirs_[j]], Confidence::ancestor,
                       MatchRule::structure);
    }
    // The rest between two aligned ones of one scope is of that scope.
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (placement_.placed(nodes_[i])) continue;
      const std::int32_t before = neighbour(i, -1), after = neighbour(i, 1);
      if (before >= 0 && after >= 0 && placement_.matches[before].scope == placement_.matches[after].scope) {
        placement_.matches[nodes_[i]] = placement_.matches[before];
        placement_.matches[nodes_[i]].confidence = Confidence::ancestor;
        placement_.matches[nodes_[i]].rule = MatchRule::dataflow;
      }
    }
    for (const std::int32_t f : nodes_) {
      if (placement_.placed(f)) continue;
      if (nodes_.size() == 1) {  // one node for all of it: fused
        placement_.place(f, all, Confidence::ancestor, MatchRule::cone);
      } else {
        placement_.place(f, all, Confidence::ancestor, MatchRule::dataflow);
        placement_.matches[f].shared = true;
      }
    }
  }

  std::int32_t neighbour(std::size_t i, int step) const {
    for (auto at = static_cast<std::ptrdiff_t>(i) + step; at >= 0 && at < static_cast<std::ptrdiff_t>(nodes_.size());
         at += step) {
      if (placement_.placed(nodes_[static_cast<std::size_t>(at)])) return nodes_[static_cast<std::size_t>(at)];
    }
    return -1;
  }

  Placement& placement_;
  const Structure& f_;
  const Structure& r_;
  const std::vector<std::int32_t>& position_f_;
  const std::vector<std::int32_t>& position_r_;
  std::vector<std::int32_t> nodes_, theirs_;
  std::vector<std::int32_t> above_, below_;  // reference values
  std::vector<std::int32_t> read_;           // reference values that `theirs_` read and the foreign file has
  bool certain_ = true;                      // that they are those of the foreign values
  bool open_ = false;                        // it reads an input of the graph that the reference does not have
};

std::vector<std::int32_t> positions(const Structure& s) {
  std::vector<std::int32_t> result(s.nodes.size(), 0);
  for (std::size_t i = 0; i < s.order.size(); ++i) result[s.order[i]] = static_cast<std::int32_t>(i);
  return result;
}

}  // namespace

void place_stretches(Placement& placement) {
  const auto position_f = positions(placement.foreign);
  const auto position_r = positions(placement.reference.structure);
  std::vector<bool> seen(placement.foreign.nodes.size(), false);
  for (const std::int32_t f : placement.foreign.order) {
    if (seen[f] || placement.placed(f) || placement.foreign.nodes[f].kind != NodeKind::heavy) continue;
    Stretch stretch(placement, position_f, position_r);
    stretch.collect(f, seen);
    stretch.place();
  }
}

}  // namespace whence::match
