// Bridges: proposes pairs of nodes that are alike beyond a part that the two sides spell differently, starting from
// values that correspond.
#include <algorithm>
#include <map>
#include <utility>

#include "annotator/match/correspondence.h"
#include "annotator/match/correspondence_weights.h"
#include "annotator/match/op_class.h"

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
    if (!down_) return s_.makers(value);
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

}  // namespace

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
    const auto a = f_.data_inputs(f);
    const auto b = r_.data_inputs(node_of_[f]);
    for (std::size_t i = 0; i < a.size() && a.size() == b.size(); ++i) {
      if (a[i].exists() && b[i].exists() && !value_of_[a[i]].exists() && !foreign_of_[b[i]].exists())
        from(a[i], b[i], false);
    }
  }
  return queue_.size() > before;
}

}  // namespace whence::match
