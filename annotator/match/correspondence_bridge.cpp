// Bridges: over what the two sides spell differently, from values that correspond to the next nodes that are alike.
#include <algorithm>
#include <map>
#include <utility>

#include "annotator/match/correspondence.h"
#include "annotator/match/correspondence_weights.h"
#include "annotator/match/op_class.h"

namespace whence::match {

namespace {

struct Nearest {
  std::int32_t node = -1;
  int distance = 0;
  bool several = false;  // at that distance
};

}  // namespace

// The nearest node without partner of each operator, from a value upwards or downwards, as far as values without
// partner: what lies beyond one that has a partner is between other values.
class Correspondence::Lookout {
 public:
  Lookout(const Structure& s, const std::vector<std::int32_t>& partners, const std::vector<std::int32_t>& known,
          bool down)
      : s_(s), partners_(partners), known_(known), down_(down) {}

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
        for (const std::int32_t beyond : results(node)) {
          if (known_[beyond] < 0) values.emplace_back(beyond, distance + 1);
        }
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
  const std::vector<std::int32_t>&partners_, &known_;  // of nodes, of values
  bool down_;
};

// Where growth stopped, looks past nodes without partner for an operator whose nearest occurrence is one on each side:
// from values that correspond, and upwards from operands of corresponding nodes that do not. Proposes these pairs; true
// when there are new ones.
bool Correspondence::bridge() {
  const std::size_t before = queue_.size();
  const auto from = [&](std::int32_t fv, std::int32_t rv, bool down) {
    const auto mine = Lookout(f_, node_of_, value_of_, down).from(fv, [](std::int32_t, std::int32_t) { return false; });
    if (mine.empty()) return;
    const auto others = Lookout(r_, foreign_node_of_, foreign_of_, down).from(rv, [&](std::int32_t a, std::int32_t b) {
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

}  // namespace whence::match
