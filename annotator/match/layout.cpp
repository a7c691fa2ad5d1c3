// Rearrangements (Reshape, Transpose, Cast, a bias) between two computing nodes align with those that the reference has
// on the same way, in order. One that the reference lacks goes with its neighbours.
#include <algorithm>
#include <array>

#include "annotator/match/placement.h"

namespace whence {
namespace {

constexpr std::size_t longest = 64;

// Rearrangements of one kind may stand for each other: 3 for the same operator, 2 for one of the same kind.
int alike(std::string_view a, std::string_view b) {
  if (a == b) return 3;
  constexpr std::array<std::string_view, 5> reshapes = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand"};
  const auto is_reshape = [&](std::string_view name) {
    return std::find(reshapes.begin(), reshapes.end(), name) != reshapes.end();
  };
  return is_reshape(a) && is_reshape(b) ? 2 : 0;
}

// The transparent nodes from a value back to the computing node (or input) it comes from, first one first.
std::vector<std::int32_t> way_to(const Structure& s, std::int32_t value) {
  std::vector<std::int32_t> way;
  while (value >= 0 && way.size() < longest && s.values[value].loose != value) {
    std::int32_t next = -1;
    for (const std::int32_t producer : s.values[value].producers) {
      if (s.nodes[producer].kind == NodeKind::transparent) {
        next = producer;
        break;
      }
    }
    if (next < 0) break;
    way.push_back(next);
    std::int32_t from = -1;
    for (const std::int32_t input : s.nodes[next].inputs) {
      if (input >= 0 && s.values[input].loose == s.values[value].loose && from < 0) from = input;
    }
    value = from;
  }
  std::reverse(way.begin(), way.end());
  return way;
}

class Ways {
 public:
  explicit Ways(Placement& placement)
      : placement_(placement), f_(placement.foreign), r_(placement.reference.structure), votes_(f_.nodes.size()) {}

  void align_into(std::int32_t f, std::int32_t r) {
    const StructureNode& ours = f_.nodes[f];
    const StructureNode& theirs = r_.nodes[r];
    for (std::size_t i = 0; i < ours.inputs.size(); ++i) {
      const std::int32_t value = ours.inputs[i];
      if (value < 0 || f_.values[value].constant) continue;
      const std::int32_t wanted = placement_.pairs.value(f_.loose(value));
      // The same slot first, then any that reads the corresponding value.
      for (std::size_t k = 0; k <= theirs.inputs.size(); ++k) {
        const std::size_t j = k == 0 ? i : k - 1;
        if (j >= theirs.inputs.size() || theirs.inputs[j] < 0) continue;
        if (r_.values[theirs.inputs[j]].constant || r_.loose(theirs.inputs[j]) != wanted) continue;
        align(value, theirs.inputs[j]);
        break;
      }
    }
  }

  void align(std::int32_t fv, std::int32_t rv) {
    const auto ours = way_to(f_, fv), theirs = way_to(r_, rv);
    if (ours.empty()) return;
    const auto pairs = align_sequences(ours.size(), theirs.size(), [&](std::size_t i, std::size_t j) {
      return alike(f_.nodes[ours[i]].op_type, r_.nodes[theirs[j]].op_type);
    });
    std::size_t used = 0;
    for (const auto& [i, j] : pairs) {
      const auto& units = placement_.reference.units_of_node[theirs[j]];
      votes_[ours[i]].push_back({units, ours.size() == theirs.size() && pairs.size() == ours.size()});
      used = j + 1;
    }
    static_cast<void>(used);
  }

  void decide() {
    for (std::size_t f = 0; f < votes_.size(); ++f) {
      if (votes_[f].empty() || placement_.placed(static_cast<std::int32_t>(f))) continue;
      // Ways that share a stretch may disagree on it; the complete alignment wins, then the first.
      const Vote* best = &votes_[f].front();
      bool agree = true;
      for (const Vote& vote : votes_[f]) {
        agree &= vote.units == best->units;
        if (vote.complete && !best->complete) best = &vote;
      }
      placement_.place(static_cast<std::int32_t>(f), best->units,
                       agree ? MatchConfidence::matched : MatchConfidence::inferred, MatchRule::layout);
    }
  }

 private:
  struct Vote {
    std::vector<std::int32_t> units;
    bool complete;
  };

  Placement& placement_;
  const Structure& f_;
  const Structure& r_;
  std::vector<std::vector<Vote>> votes_;
};

// A rearrangement without counterpart: a bias or scale belongs to its product; one beside a Gemm was put there for it;
// any other goes with what reads it, or what it reads when both are of one scope.
void place_leftover(Placement& placement, std::int32_t node) {
  const Structure& f = placement.foreign;
  const StructureNode& entry = f.nodes[node];
  const auto take = [&](std::int32_t from, MatchConfidence confidence) {
    const NodeMatch& other = placement.matches[from];
    placement.matches[node] = other;
    placement.matches[node].confidence = std::max(confidence, other.confidence);
    placement.matches[node].rule = MatchRule::dataflow;
  };
  std::vector<std::int32_t> before, after;
  for (const std::int32_t input : entry.inputs) {
    if (input < 0 || f.values[input].constant) continue;
    for (const std::int32_t producer : f.values[input].producers) before.push_back(producer);
    break;
  }
  for (const std::int32_t output : entry.outputs) {
    if (output < 0) continue;
    for (const StructureUse& use : f.values[output].uses) {
      if (use.node >= 0) after.push_back(use.node);
    }
  }
  const auto placed = [&](std::int32_t other) { return placement.placed(other); };
  const bool elementwise = entry.op_type == "Add" || entry.op_type == "Mul";
  if (elementwise && !before.empty() && placed(before.front())) {
    return take(before.front(), MatchConfidence::matched);
  }
  for (const auto* side : {&before, &after}) {
    for (const std::int32_t other : *side) {
      if (f.nodes[other].op_type == "Gemm" && placed(other)) return take(other, MatchConfidence::matched);
    }
  }
  for (const std::int32_t a : before) {
    for (const std::int32_t b : after) {
      if (placed(a) && placed(b) && placement.matches[a].scope == placement.matches[b].scope) {
        return take(a, MatchConfidence::inferred);
      }
    }
  }
  for (const auto* side : {&after, &before}) {
    for (const std::int32_t other : *side) {
      if (placed(other)) return take(other, MatchConfidence::ancestor);
    }
  }
}

}  // namespace

void place_layout(Placement& placement) {
  const Structure& f = placement.foreign;
  const Structure& r = placement.reference.structure;
  Ways ways(placement);
  for (const std::int32_t node : f.order) {
    if (placement.pairs.node(node) >= 0) ways.align_into(node, placement.pairs.node(node));
  }
  for (const std::int32_t output : f.outputs) {
    const std::int32_t wanted = placement.pairs.value(f.loose(output));
    for (const std::int32_t other : r.outputs) {
      if (wanted >= 0 && r.loose(other) == wanted) {
        ways.align(output, other);
        break;
      }
    }
  }
  ways.decide();
  for (const std::int32_t node : f.order) {
    if (f.nodes[node].kind == NodeKind::transparent && !placement.placed(node)) place_leftover(placement, node);
  }
}

}  // namespace whence
