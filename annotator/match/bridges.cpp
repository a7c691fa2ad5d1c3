#include "annotator/match/bridges.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "annotator/match/growth_limits.h"
#include "annotator/match/op_class.h"
#include "schema/sort_unique.h"

namespace whence::match {
namespace {

template <Side S>
struct NearestNode {
  NodeIndex<S> node;
  int distance = 0;
  bool is_ambiguous = false;  // other nodes are as near
};

// Finds the nearest node without a partner of each operator, from a value towards its makers or readers. The search
// ends at values with a partner: nodes beyond them are between other values.
template <Side S>
class NodeSearch {
  using Node = NodeIndex<S>;
  using Value = ValueIndex<S>;

 public:
  NodeSearch(const Structure<S>& s, const Correspondence& pairs, SearchDirection direction)
      : s_(s), pairs_(pairs), direction_(direction) {}

  // `same`: returns true if two nodes are forms of the same operation.
  std::map<std::uint16_t, NearestNode<S>> nearest(Value start, const auto& same) const {
    std::map<std::uint16_t, NearestNode<S>> found;
    std::vector<std::pair<Value, int>> values = {{start, 0}};
    std::vector<Node> seen;
    for (std::size_t i = 0; i < values.size() && seen.size() < max_nodes; ++i) {
      const auto [at, distance] = values[i];
      if (distance >= max_distance) break;
      for (const Node node : next_nodes(at)) {
        if (pairs_.partner(node).exists() || std::find(seen.begin(), seen.end(), node) != seen.end()) continue;
        seen.push_back(node);
        NearestNode<S>& entry = found[s_.nodes[node].op_class];
        if (!entry.node.exists()) {
          entry = {node, distance, false};
        } else if (entry.distance == distance && !same(entry.node, node)) {
          entry.is_ambiguous = true;
        }
        for (const Value beyond : next_values(node)) {
          if (!pairs_.partner(beyond).exists()) values.emplace_back(beyond, distance + 1);
        }
      }
    }
    return found;
  }

 private:
  static constexpr std::size_t max_nodes = 32;
  static constexpr int max_distance = 8;

  std::vector<Node> next_nodes(Value value) const {
    if (direction_ == SearchDirection::makers) return {s_.makers(value).begin(), s_.makers(value).end()};
    std::vector<Node> nodes;
    if (s_.heavy_uses(value).size() > max_readers) return nodes;
    for (const auto& use : s_.heavy_uses(value)) nodes.push_back(use.node);
    return nodes;
  }

  std::vector<Value> next_values(Node node) const {
    std::vector<Value> values;
    if (direction_ == SearchDirection::readers) {
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
  const Correspondence& pairs_;
  SearchDirection direction_;
};

// Returns the operators by which a value is computed within a few steps, each once and ascending.
template <Side S>
std::vector<std::uint16_t> operators_before(const Structure<S>& s, ValueIndex<S> value) {
  constexpr int max_distance = 3;
  constexpr std::size_t max_values = 24;
  std::vector<std::uint16_t> found;
  std::vector<std::pair<ValueIndex<S>, int>> values = {{value, 0}};
  for (std::size_t i = 0; i < values.size() && i < max_values; ++i) {
    const auto [at, distance] = values[i];
    for (const NodeIndex<S> maker : s.makers(at)) {
      found.push_back(s.nodes[maker].op_class);
      if (distance + 1 == max_distance) continue;
      for (const ValueIndex<S> input : s.data_inputs(maker)) {
        if (input.exists()) values.emplace_back(input, distance + 1);
      }
    }
  }
  sort_unique(found);
  return found;
}

}  // namespace

bool Bridges::propose() {
  const std::size_t before = proposals_.size();
  for (const ForeignValue fv : f_.values.keys()) {
    const ReferenceValue rv = pairs_.partner(fv);
    if (!rv.exists()) continue;
    propose_from(fv, rv, SearchDirection::readers);
    propose_from(fv, rv, SearchDirection::makers);
  }
  for (const ForeignNode f : f_.nodes.keys()) {
    const ReferenceNode r = pairs_.partner(f);
    if (!r.exists()) continue;
    for (const auto& [fv, rv] : open_operands(f, r)) propose_from(fv, rv, SearchDirection::makers);
  }
  return proposals_.size() > before;
}

void Bridges::propose_from(ForeignValue fv, ReferenceValue rv, SearchDirection direction) {
  const auto f_nearest = NodeSearch(f_, pairs_, direction).nearest(fv, [](ForeignNode, ForeignNode) { return false; });
  if (f_nearest.empty()) return;
  const auto r_nearest = NodeSearch(r_, pairs_, direction).nearest(rv, [&](ReferenceNode a, ReferenceNode b) {
    return reference_.same_units(a, b);
  });
  for (const auto& [op, nearest] : f_nearest) {
    const auto partner = r_nearest.find(op);
    if (nearest.is_ambiguous || partner == r_nearest.end() || partner->second.is_ambiguous) continue;
    if (is_commutative(op)) continue;  // too common to mean anything at a distance
    if (score_.bonus(nearest.node, partner->second.node) >= 2 * bridge_bonus) continue;
    proposals_.propose(nearest.node, partner->second.node, Distance::far);
  }
}

// Returns the operands of a pair that have no partners, in the same positions. The operands of a commutative node have
// no position: they are paired by the operators that compute them, if these differ.
std::vector<std::pair<ForeignValue, ReferenceValue>> Bridges::open_operands(ForeignNode f, ReferenceNode r) const {
  std::vector<ForeignValue> f_inputs = f_.data_inputs(f);
  std::vector<ReferenceValue> r_inputs = r_.data_inputs(r);
  const auto has_partner = [&](auto value) { return !value.exists() || pairs_.partner(value).exists(); };
  if (f_.nodes[f].commutative) {
    std::erase_if(f_inputs, has_partner);
    std::erase_if(r_inputs, has_partner);
    if (!order_open_operands(f_inputs, r_inputs)) return {};
  }
  std::vector<std::pair<ForeignValue, ReferenceValue>> open;
  for (std::size_t i = 0; i < f_inputs.size() && f_inputs.size() == r_inputs.size(); ++i) {
    if (!has_partner(f_inputs[i]) && !has_partner(r_inputs[i])) open.emplace_back(f_inputs[i], r_inputs[i]);
  }
  return open;
}

// Puts the reference's operands into the order of the foreign ones. Returns false if the order is unclear.
bool Bridges::order_open_operands(const std::vector<ForeignValue>& f_open, std::vector<ReferenceValue>& r_open) const {
  if (f_open.size() != 2 || r_open.size() != 2) return f_open.size() == 1 && r_open.size() == 1;
  constexpr double clear_difference = 0.1;
  const double straight = common_operator_share(f_open[0], r_open[0]) + common_operator_share(f_open[1], r_open[1]);
  const double crossed = common_operator_share(f_open[0], r_open[1]) + common_operator_share(f_open[1], r_open[0]);
  if (std::abs(straight - crossed) < clear_difference) return false;
  if (crossed > straight) std::swap(r_open[0], r_open[1]);
  return true;
}

// Returns the share of the operators that compute both values, among those that compute either, within a few steps: 0
// to 1.
double Bridges::common_operator_share(ForeignValue fv, ReferenceValue rv) const {
  const std::vector<std::uint16_t> f_operators = operators_before(f_, fv), r_operators = operators_before(r_, rv);
  std::vector<std::uint16_t> both, either;
  std::ranges::set_intersection(f_operators, r_operators, std::back_inserter(both));
  std::ranges::set_union(f_operators, r_operators, std::back_inserter(either));
  return either.empty() ? 1 : static_cast<double>(both.size()) / static_cast<double>(either.size());
}

}  // namespace whence::match
