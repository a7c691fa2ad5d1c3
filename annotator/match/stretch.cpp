// Places computing nodes without a partner. They form stretches between values that correspond, for which the two sides
// have different spellings (an activation, a normalization, a fused attention). A stretch represents the units of the
// reference's nodes between the same values. If there are several, operators that both sides have are aligned in
// execution order.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "annotator/match/op_class.h"
#include "annotator/match/placement.h"
#include "schema/sort_unique.h"

namespace whence::match {

using origin::Confidence;

namespace {

constexpr std::size_t max_stretch = 400;  // nodes of a stretch on either side

class Stretch {
 public:
  Stretch(Placement& placement, const IndexedVector<ForeignNode, std::int32_t>& position_f,
          const IndexedVector<ReferenceNode, std::int32_t>& position_r)
      : placement_(placement),
        f_(placement.foreign),
        r_(placement.reference.structure),
        position_f_(position_f),
        position_r_(position_r) {}

  // Collects all nodes without a partner that are connected to `start`.
  void collect(ForeignNode start, IndexedVector<ForeignNode, bool>& seen) {
    nodes_ = {start};
    seen[start] = true;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      for (const ForeignValue input : f_.data_inputs(nodes_[i])) {
        if (!input.exists()) continue;
        if (placement_.pairs.partner(input).exists()) {
          certain_ = certain_ && placement_.pairs.is_certain(input);
          above_.push_back(placement_.pairs.partner(input));
          continue;
        }
        reads_other_input_ = reads_other_input_ || f_.makers(input).empty();
        for (const ForeignNode producer : f_.makers(input)) add_node(producer, seen);
      }
      for (const ForeignValue output : f_.nodes[nodes_[i]].outputs) {
        const ForeignValue value = f_.loose(output);
        if (!value.exists()) continue;
        if (placement_.pairs.partner(value).exists()) {
          certain_ = certain_ && placement_.pairs.is_certain(value);
          const ReferenceValue below = placement_.pairs.partner(value);
          is_computed_twice_ = is_computed_twice_ || placement_.pairs.partner(below) != value;
          below_.push_back(below);
          continue;
        }
        for (const auto& use : f_.heavy_uses(value)) {
          if (!add_node(use.node, seen)) add_end(use);
        }
      }
    }
    std::sort(nodes_.begin(), nodes_.end(), [&](auto a, auto b) { return position_f_[a] < position_f_[b]; });
    // If values at both ends have one partner, only the foreign file has the nodes between them.
    std::erase_if(below_,
                  [&](ReferenceValue value) { return std::find(above_.begin(), above_.end(), value) != above_.end(); });
  }

  void place() {
    if (nodes_.size() == 1 && place_like_reader(nodes_.front())) return;
    if (below_.empty() && place_with_neighbours()) return;
    find_reference_nodes();
    if (reference_nodes_.empty()) {
      place_with_neighbours();
      return;
    }
    std::vector<UnitIndex> all;
    for (const ReferenceNode r : reference_nodes_) {
      const auto& units = placement_.reference.units_of_node[r];
      all.insert(all.end(), units.begin(), units.end());
    }
    sort_unique(all);
    if (placement_.one_scope(all)) {
      if (may_represent(all)) {
        for (const ForeignNode f : nodes_) place_one(f, all);
        return;
      }
      if (place_with_neighbours()) return;
    }
    if (nodes_.size() == 1 && is_exactly_between()) {
      placement_.place(nodes_.front(), std::move(all), Confidence::inferred, MatchRule::cone);
      return;
    }
    align(all);
  }

 private:
  // Returns true if the node belongs to a stretch; adds it to this one if it is new.
  bool add_node(ForeignNode node, IndexedVector<ForeignNode, bool>& seen) {
    if (placement_.settled(node) || f_.nodes[node].kind != NodeKind::heavy) return false;
    if (seen[node]) return true;
    seen[node] = true;
    nodes_.push_back(node);
    return true;
  }

  // Adds the value at which the stretch ends in the reference: the same operand of a reader's partner.
  void add_end(const StructureUse<Side::foreign>& use) {
    const ReferenceValue operand = operand_of_partner(use);
    if (!operand.exists()) {
      has_unknown_end_ = true;
    } else if (!placement_.pairs.partner(operand).exists()) {
      below_.push_back(operand);
    }
  }

  // Returns the same operand of the reader's partner; none if it is unknown which one it is.
  ReferenceValue operand_of_partner(const StructureUse<Side::foreign>& use) const {
    const ReferenceNode partner = placement_.pairs.partner(use.node);
    if (!partner.exists()) return {};
    const auto f_inputs = f_.data_inputs(use.node);
    const auto r_inputs = r_.data_inputs(partner);
    const auto slot = static_cast<std::size_t>(use.slot);
    if (is_commutative(f_.nodes[use.node].op_class)) {
      if (f_inputs.size() != 2 || r_inputs.size() != 2 || slot > 1 || !f_inputs[1 - slot].exists()) return {};
      const ReferenceValue other = placement_.pairs.partner(f_inputs[1 - slot]);
      if (!other.exists()) return {};
      return r_inputs[0] == other ? r_inputs[1] : r_inputs[1] == other ? r_inputs[0] : ReferenceValue();
    }
    const bool same_slots = f_inputs.size() == r_inputs.size() || is_product(f_.nodes[use.node].op_class);
    return same_slots && slot < r_inputs.size() ? r_inputs[slot] : ReferenceValue();
  }

  // Places a node that growth stepped over on both sides: in the reference, one operator of this class without a
  // partner reads the same value.
  bool place_like_reader(ForeignNode f) {
    for (const ForeignValue input : f_.data_inputs(f)) {
      if (!input.exists() || !placement_.pairs.partner(input).exists()) continue;
      ReferenceNode only;
      for (const auto& use : r_.heavy_uses(placement_.pairs.partner(input))) {
        if (r_.nodes[use.node].op_class != f_.nodes[f].op_class) continue;
        if (placement_.pairs.partner(use.node).exists()) continue;
        const auto& units = placement_.reference.units_of_node[use.node];
        if (only.exists() && placement_.reference.units_of_node[only] != units) return false;
        only = use.node;
      }
      if (!only.exists()) continue;
      std::vector<UnitIndex> units = placement_.reference.units_of_node[only];
      const auto& results = r_.nodes[only].outputs;
      const auto activation =
          stated_activation(placement_, f, results.empty() ? ReferenceValue() : r_.loose(results[0]));
      units.insert(units.end(), activation.begin(), activation.end());
      placement_.place(f, std::move(units), Confidence::inferred,
                       activation.empty() ? MatchRule::structure : MatchRule::cone);
      return true;
    }
    return false;
  }

  // Places nodes that only the foreign file has. If all neighbours are of one scope, this is the scope. Otherwise only
  // an enclosing module is known: that of a neighbour which uses the operator, readers first, else that of a reader.
  bool place_with_neighbours() {
    std::vector<ForeignNode> before, after;
    for (const ForeignNode f : nodes_) {
      for (const ForeignNode other : computing_neighbours(f, false)) before.push_back(other);
      for (const ForeignNode other : computing_neighbours(f, true)) after.push_back(other);
    }
    const auto take = [&](ForeignNode f, ForeignNode from, Confidence confidence) {
      placement_.matches[f] = placement_.matches[from];
      placement_.matches[f].confidence = std::max(confidence, placement_.matches[from].confidence);
      placement_.matches[f].rule = MatchRule::dataflow;
    };
    if (before.empty() || after.empty()) return false;
    std::vector<ForeignNode> around = before;
    around.insert(around.end(), after.begin(), after.end());
    const bool one = std::all_of(around.begin(), around.end(), [&](ForeignNode other) {
      return placement_.matches[other].scope == placement_.matches[around.front()].scope;
    });
    for (const ForeignNode f : nodes_) {
      ForeignNode from = one ? around.front() : placement_.first_with_operator_of(f, after);
      if (!from.exists()) from = placement_.first_with_operator_of(f, before);
      if (!from.exists()) from = after.front();
      take(f, from, one ? Confidence::inferred : Confidence::ancestor);
    }
    return true;
  }

  // Returns the placed computing nodes next to `f`, through rearrangements.
  std::vector<ForeignNode> computing_neighbours(ForeignNode f, bool to_readers) const {
    std::vector<ForeignNode> found;
    const auto add = [&](ForeignNode node) {
      if (f_.nodes[node].kind == NodeKind::heavy && placement_.placed(node)) found.push_back(node);
    };
    if (to_readers) {
      for (const ForeignValue output : f_.nodes[f].outputs) {
        if (!output.exists()) continue;
        for (const auto& use : f_.heavy_uses(f_.loose(output))) add(use.node);
      }
    } else {
      for (const ForeignValue input : f_.data_inputs(f)) {
        if (!input.exists()) continue;
        for (const ForeignNode producer : f_.makers(input)) add(producer);
      }
    }
    return found;
  }

  // Returns true if the stretch may represent `units`, which are all of one scope. If the stretch reads a value of a
  // module below that scope and the reference's nodes do not, the units are only a part of the stretch: the mask of an
  // attention and not the attention, which also reads a product.
  bool may_represent(const std::vector<UnitIndex>& units) const {
    const ScopeIndex scope = placement_.scope_of(units);
    if (reads_other_input_ || ((has_unknown_end_ || is_computed_twice_) && !has_all_products())) return false;
    return std::ranges::none_of(above_, [&](ReferenceValue value) {
      return std::ranges::find(read_, value) == read_.end() && is_computed_below(scope, value);
    });
  }

  // Returns true if the reference's nodes compute the same values as the stretch from the same values.
  bool is_exactly_between() const {
    if (reads_other_input_ || has_unknown_end_ || is_computed_twice_) return false;
    const std::set<ReferenceValue> above(above_.begin(), above_.end());
    std::set<ReferenceValue> read(read_.begin(), read_.end());
    for (const ReferenceValue result : below_) read.erase(result);  // of one result of the stretch for another
    return above == read;
  }

  // Returns true if the reference's nodes include a product for each product of the stretch.
  bool has_all_products() const {
    return std::ranges::all_of(nodes_, [&](ForeignNode f) {
      const auto op_class = f_.nodes[f].op_class;
      return !is_product(op_class) ||
             std::ranges::any_of(reference_nodes_, [&](ReferenceNode r) { return r_.nodes[r].op_class == op_class; });
    });
  }

  bool is_computed_below(ScopeIndex scope, ReferenceValue value) const {
    return std::ranges::any_of(r_.makers(value), [&](ReferenceNode maker) {
      const ScopeIndex scope_of_maker = placement_.scope_of(placement_.reference.units_of_node[maker]);
      return scope_of_maker.exists() && scope_of_maker != scope &&
             placement_.reference.scopes.common(scope, scope_of_maker) == scope;
    });
  }

  // Places a node between values of one scope: it represents the unit if there is one, else it shares all units.
  void place_one(ForeignNode f, const std::vector<UnitIndex>& units) {
    std::vector<UnitIndex> all = units;
    const std::vector<UnitIndex> biased = absorbed_biases(placement_, f, 0);
    all.insert(all.end(), biased.begin(), biased.end());
    placement_.place(f, all, certain_ ? Confidence::matched : Confidence::inferred,
                     biased.empty() ? MatchRule::dataflow : MatchRule::cone);
    placement_.matches[f].shared = biased.empty() && units.size() > 1;
  }

  void find_reference_nodes() {
    std::unordered_set<ReferenceNode> seen;
    std::vector<ReferenceValue> values = below_;
    for (std::size_t i = 0; i < values.size() && reference_nodes_.size() < max_stretch; ++i) {
      for (const ReferenceNode producer : r_.makers(values[i])) {
        if (r_.nodes[producer].kind != NodeKind::heavy || !seen.insert(producer).second) continue;
        reference_nodes_.push_back(producer);
        for (const ReferenceValue input : r_.data_inputs(producer)) {
          if (!input.exists()) continue;
          (!placement_.pairs.partner(input).exists() ? values : read_).push_back(input);
        }
      }
    }
    sort_reference_nodes();
  }

  void sort_reference_nodes() {
    std::sort(reference_nodes_.begin(), reference_nodes_.end(), [&](auto a, auto b) {
      const auto key = [&](ReferenceNode r) {
        const auto& units = placement_.reference.units_of_node[r];
        return std::pair(units.empty() ? UnitIndex(0) : units.front(), position_r_[r]);
      };
      return key(a) < key(b);
    });
  }

  // Aligns the operators of both sides. The result is right in five of six cases (measured by tests/accuracy), which is
  // less than `inferred` promises.
  void align(const std::vector<UnitIndex>& all) {
    if (nodes_.size() > max_stretch) return;
    const auto pairs = align_sequences(nodes_.size(), reference_nodes_.size(), [&](std::size_t i, std::size_t j) {
      return f_.nodes[nodes_[i]].op_class == r_.nodes[reference_nodes_[j]].op_class ? 1 : 0;
    });
    for (const auto& [i, j] : pairs) {
      placement_.place(nodes_[i], placement_.reference.units_of_node[reference_nodes_[j]], Confidence::ancestor,
                       MatchRule::structure);
    }
    // A node between two aligned nodes of one scope is of that scope.
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (placement_.settled(nodes_[i])) continue;
      const ForeignNode before = neighbour(i, -1), after = neighbour(i, 1);
      if (before.exists() && after.exists() && placement_.matches[before].scope == placement_.matches[after].scope) {
        placement_.matches[nodes_[i]] = placement_.matches[before];
        placement_.matches[nodes_[i]].confidence = Confidence::ancestor;
        placement_.matches[nodes_[i]].rule = MatchRule::dataflow;
      }
    }
    for (const ForeignNode f : nodes_) {
      if (placement_.settled(f)) continue;
      if (nodes_.size() == 1) {  // one fused node
        placement_.place(f, all, Confidence::ancestor, MatchRule::cone);
      } else {
        placement_.place(f, all, Confidence::ancestor, MatchRule::dataflow);
        placement_.matches[f].shared = true;
      }
    }
  }

  ForeignNode neighbour(std::size_t i, int step) const {
    for (auto at = static_cast<std::ptrdiff_t>(i) + step; at >= 0 && at < static_cast<std::ptrdiff_t>(nodes_.size());
         at += step) {
      if (placement_.placed(nodes_[static_cast<std::size_t>(at)])) return nodes_[static_cast<std::size_t>(at)];
    }
    return {};
  }

  Placement& placement_;
  const ForeignStructure& f_;
  const ReferenceStructure& r_;
  const IndexedVector<ForeignNode, std::int32_t>& position_f_;
  const IndexedVector<ReferenceNode, std::int32_t>& position_r_;
  std::vector<ForeignNode> nodes_;
  std::vector<ReferenceNode> reference_nodes_;
  std::vector<ReferenceValue> above_, below_;  // values of the reference at which the stretch begins and ends
  std::vector<ReferenceValue> read_;           // values with a partner that `reference_nodes_` read
  bool certain_ = true;                        // all pairs of values at the ends are certain
  bool reads_other_input_ = false;             // it reads an input of the graph that the reference does not have
  bool is_computed_twice_ = false;             // another call in the file computes the same value
  bool has_unknown_end_ = false;               // a reader does not show where the stretch ends in the reference
};

}  // namespace

void place_stretches(Placement& placement) {
  const auto position_f = placement.foreign.positions();
  const auto position_r = placement.reference.structure.positions();
  IndexedVector<ForeignNode, bool> seen(placement.foreign.nodes.size(), false);
  for (const ForeignNode f : placement.foreign.order) {
    if (seen[f] || placement.settled(f) || placement.foreign.nodes[f].kind != NodeKind::heavy) continue;
    Stretch stretch(placement, position_f, position_r);
    stretch.collect(f, seen);
    stretch.place();
  }
}

}  // namespace whence::match
