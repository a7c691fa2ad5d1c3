// Bridges: proposes pairs of nodes that are alike beyond a part that the two sides spell differently, starting from
// values that correspond.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "annotator/match/correspondence.h"
#include "annotator/match/correspondence_weights.h"
#include "annotator/match/op_class.h"
#include "schema/sort_unique.h"

namespace whence::match {

namespace {

template <Side S>
struct Nearest {
  NodeIndex<S> node;
  int distance = 0;
  bool several = false;  // at that distance
};

// Finds the nearest node without a partner of each operator, from a value upwards or downwards. The search ends at
// values with a partner: nodes beyond them are between other values.
template <Side S, Side Other>
class Lookout {
  using Node = NodeIndex<S>;
  using Value = ValueIndex<S>;

 public:
  Lookout(const Structure<S>& s, const IndexedVector<Node, NodeIndex<Other>>& partners,
          const IndexedVector<Value, ValueIndex<Other>>& known, bool down)
      : s_(s), partners_(partners), known_(known), down_(down) {}

  std::map<std::uint16_t, Nearest<S>> from(Value value, const auto& same) {
    std::map<std::uint16_t, Nearest<S>> found;
    std::vector<std::pair<Value, int>> values = {{value, 0}};
    std::vector<Node> seen;
    for (std::size_t i = 0; i < values.size() && seen.size() < max_nodes; ++i) {
      const auto [at, distance] = values[i];
      if (distance >= farthest) break;
      for (const Node node : next(at)) {
        if (partners_[node].exists() || std::find(seen.begin(), seen.end(), node) != seen.end()) continue;
        seen.push_back(node);
        Nearest<S>& entry = found[s_.nodes[node].op_class];
        if (!entry.node.exists()) {
          entry = {node, distance, false};
        } else if (entry.distance == distance && !same(entry.node, node)) {
          entry.several = true;
        }
        for (const Value beyond : results(node)) {
          if (!known_[beyond].exists()) values.emplace_back(beyond, distance + 1);
        }
      }
    }
    return found;
  }

 private:
  static constexpr std::size_t max_nodes = 32;
  static constexpr int farthest = 8;

  std::vector<Node> next(Value value) const {
    if (!down_) return {s_.makers(value).begin(), s_.makers(value).end()};
    std::vector<Node> nodes;
    if (s_.heavy_uses(value).size() > max_readers) return nodes;
    for (const auto& use : s_.heavy_uses(value)) nodes.push_back(use.node);
    return nodes;
  }

  std::vector<Value> results(Node node) const {
    std::vector<Value> values;
    if (down_) {
      for (const Value output : s_.nodes[node].outputs) {
        if (output.exists()) values.push_back(s_.loose(output));
      }
      return values;
    }
    for (const Value input : s_.data_inputs(node)) {
      if (input.exists()) values.push_back(input);
    }
    return values;
  }

  const Structure<S>& s_;
  const IndexedVector<Node, NodeIndex<Other>>& partners_;
  const IndexedVector<Value, ValueIndex<Other>>& known_;
  bool down_;
};

// Operators by which a value is computed, some steps back, each once and ascending.
template <Side S>
std::vector<std::uint16_t> operators_behind(const Structure<S>& s, ValueIndex<S> value) {
  constexpr int steps = 3;
  constexpr std::size_t most = 24;
  std::vector<std::uint16_t> found;
  std::vector<std::pair<ValueIndex<S>, int>> values = {{value, 0}};
  for (std::size_t i = 0; i < values.size() && i < most; ++i) {
    const auto [at, distance] = values[i];
    for (const NodeIndex<S> maker : s.makers(at)) {
      found.push_back(s.nodes[maker].op_class);
      if (distance + 1 == steps) continue;
      for (const ValueIndex<S> input : s.data_inputs(maker)) {
        if (input.exists()) values.emplace_back(input, distance + 1);
      }
    }
  }
  sort_unique(found);
  return found;
}

}  // namespace

// Operands in the same place of a pair that do not correspond. Those of a sum have no place: which is which shows in
// the operators that they are computed by, or not at all.
std::vector<std::pair<ForeignValue, ReferenceValue>> Correspondence::open_operands(ForeignNode f,
                                                                                   ReferenceNode r) const {
  std::vector<ForeignValue> a = f_.data_inputs(f);
  std::vector<ReferenceValue> b = r_.data_inputs(r);
  const auto is_known = [&](ForeignValue value) { return !value.exists() || value_of_[value].exists(); };
  const auto is_taken = [&](ReferenceValue value) { return !value.exists() || foreign_of_[value].exists(); };
  if (f_.nodes[f].commutative) {
    std::erase_if(a, is_known);
    std::erase_if(b, is_taken);
    if (a.size() == 2 && b.size() == 2) {
      constexpr double clearly = 0.1;
      const double straight = computed_alike(a[0], b[0]) + computed_alike(a[1], b[1]);
      const double crossed = computed_alike(a[0], b[1]) + computed_alike(a[1], b[0]);
      if (std::abs(straight - crossed) < clearly) return {};
      if (crossed > straight) std::swap(b[0], b[1]);
    } else if (a.size() != 1 || b.size() != 1) {
      return {};
    }
  }
  std::vector<std::pair<ForeignValue, ReferenceValue>> open;
  for (std::size_t i = 0; i < a.size() && a.size() == b.size(); ++i) {
    if (!is_known(a[i]) && !is_taken(b[i])) open.emplace_back(a[i], b[i]);
  }
  return open;
}

// Returns which share of the operators by which either value is computed, some steps back, compute both: 0 to 1.
double Correspondence::computed_alike(ForeignValue fv, ReferenceValue rv) const {
  const std::vector<std::uint16_t> mine = operators_behind(f_, fv), others = operators_behind(r_, rv);
  std::vector<std::uint16_t> both, either;
  std::ranges::set_intersection(mine, others, std::back_inserter(both));
  std::ranges::set_union(mine, others, std::back_inserter(either));
  return either.empty() ? 1 : static_cast<double>(both.size()) / static_cast<double>(either.size());
}

// Looks, at the places where growth stopped, past nodes without a partner for operators with exactly one nearest node
// on each side: from values that correspond, and upwards from operands that do not correspond although their nodes do.
// Proposes these pairs; returns true when there are new ones.
bool Correspondence::bridge() {
  const std::size_t before = queue_.size();
  const auto from = [&](ForeignValue fv, ReferenceValue rv, bool down) {
    const auto mine = Lookout(f_, node_of_, value_of_, down).from(fv, [](ForeignNode, ForeignNode) { return false; });
    if (mine.empty()) return;
    const auto others =
        Lookout(r_, foreign_node_of_, foreign_of_, down).from(rv, [&](ReferenceNode a, ReferenceNode b) {
          return same_units(a, b);
        });
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
  for (const ForeignValue fv : value_of_.keys()) {
    if (!value_of_[fv].exists()) continue;
    from(fv, value_of_[fv], true);
    from(fv, value_of_[fv], false);
  }
  for (const ForeignNode f : node_of_.keys()) {
    if (!node_of_[f].exists()) continue;
    for (const auto& [mine, other] : open_operands(f, node_of_[f])) from(mine, other, false);
  }
  return queue_.size() > before;
}

}  // namespace whence::match
