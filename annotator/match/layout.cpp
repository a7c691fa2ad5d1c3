// Rearrangements (Reshape, Transpose, Cast, a bias) between two computing nodes align with those that the reference has
// on the same way, in order. One that the reference lacks goes with its neighbours.
#include <algorithm>
#include <array>
#include <functional>

#include "annotator/match/placement.h"

namespace whence::match {

using origin::Confidence;

namespace {

constexpr std::size_t longest = 64;

using Known = std::function<bool(std::int32_t)>;  // of a value: it has a partner on the other side

// Rearrangements of one kind may stand for each other: 3 for the same operator, 2 for one of the same kind.
int alike(std::string_view a, std::string_view b) {
  if (a == b) return 3;
  constexpr std::array<std::string_view, 5> reshapes = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand"};
  const auto is_reshape = [&](std::string_view name) {
    return std::find(reshapes.begin(), reshapes.end(), name) != reshapes.end();
  };
  return is_reshape(a) && is_reshape(b) ? 2 : 0;
}

// The nodes from a value back to what it is computed from, first one first: rearrangements, and cheap arithmetic that
// only this side has. `known` tells the values that have a partner: there the way ends.
std::vector<std::int32_t> way_to(const Structure& s, std::int32_t value, const Known& known) {
  std::vector<std::int32_t> way;
  while (value >= 0 && way.size() < longest) {
    const auto& makers = s.values[value].producers;
    const bool rearranged = std::any_of(makers.begin(), makers.end(),
                                        [&](std::int32_t each) { return s.nodes[each].kind == NodeKind::transparent; });
    if (!rearranged && known(s.loose(value))) break;
    std::int32_t next = -1, from = -1;
    for (const std::int32_t producer : s.values[value].producers) {
      const StructureNode& node = s.nodes[producer];
      if (rearranged != (node.kind == NodeKind::transparent) || node.kind == NodeKind::constant) continue;
      int count = 0;
      for (const std::int32_t input : node.inputs) {
        if (input < 0 || s.values[input].constant) continue;
        if (rearranged && s.loose(input) != s.loose(value)) continue;
        if (count++ == 0) from = input;
      }
      if (rearranged ? count > 0 : count == 1) {
        next = producer;
        break;
      }
    }
    if (next < 0) break;
    way.push_back(next);
    value = from;
  }
  std::reverse(way.begin(), way.end());
  return way;
}

class Ways {
 public:
  explicit Ways(Placement& placement)
      : placement_(placement), f_(placement.foreign), r_(placement.reference.structure), votes_(f_.nodes.size()) {}

  // Each operand of `f` with the operand of `r`, or of another form of it, whose way is most like it.
  void align_into(std::int32_t f, std::int32_t r) {
    const StructureNode& ours = f_.nodes[f];
    for (std::size_t i = 0; i < ours.inputs.size(); ++i) {
      const std::int32_t value = ours.inputs[i];
      if (value < 0 || f_.values[value].constant) continue;
      const auto way = way_to(f_, value, ours_known());
      if (way.empty()) continue;
      const std::int32_t wanted = placement_.pairs.value(origin(f_, way, value));
      std::vector<std::int32_t> best;
      int most = -1;
      const auto consider = [&](std::int32_t operand) {
        if (operand < 0 || r_.values[operand].constant) return;
        const auto theirs = way_to(r_, operand, theirs_known());
        if (origin(r_, theirs, operand) != wanted) return;
        int worth = 0;
        for (const auto& [a, b] : pair_up(way, theirs)) worth += worth_of(way[a], theirs[b]);
        worth = std::max(worth * 16 - static_cast<int>(theirs.size()), 0);
        if (worth <= most) return;
        most = worth;
        best = theirs;
      };
      for (const std::int32_t form : forms_of(r)) {
        const StructureNode& theirs = r_.nodes[form];
        if (i < theirs.inputs.size()) consider(theirs.inputs[i]);
        for (const std::int32_t operand : theirs.inputs) consider(operand);
      }
      vote(way, best);
    }
  }

  void align(std::int32_t fv, std::int32_t rv) { vote(way_to(f_, fv, ours_known()), way_to(r_, rv, theirs_known())); }

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
                       agree && best->complete ? Confidence::matched : Confidence::inferred, MatchRule::layout);
    }
  }

 private:
  struct Vote {
    std::vector<std::int32_t> units;
    bool complete;
  };

  Known ours_known() const {
    return [this](std::int32_t value) {
      const auto& makers = f_.makers(value);
      return placement_.pairs.value(value) >= 0 &&
             (makers.empty() || std::any_of(makers.begin(), makers.end(), [&](std::int32_t maker) {
                return placement_.pairs.node(maker) >= 0 || !placement_.pairs.joint(maker).empty();
              }));
    };
  }
  Known theirs_known() const {
    return [this](std::int32_t value) { return placement_.pairs.foreign_value(value) >= 0; };
  }

  static std::string_view op(const Structure& s, std::int32_t node) { return s.nodes[node].op_type; }

  // The nodes that other forms of the reference have in this one's place, itself first.
  std::vector<std::int32_t> forms_of(std::int32_t r) const {
    std::vector<std::int32_t> forms = {r};
    const auto& units = placement_.reference.units_of_node[r];
    if (units.empty()) return forms;
    for (const std::int32_t other : placement_.reference.nodes_of_unit[units.front()]) {
      if (other != r && r_.nodes[other].op_class == r_.nodes[r].op_class && forms.size() < 16) forms.push_back(other);
    }
    return forms;
  }

  std::vector<std::pair<std::size_t, std::size_t>> pair_up(const std::vector<std::int32_t>& ours,
                                                           const std::vector<std::int32_t>& theirs) const {
    return align_sequences(ours.size(), theirs.size(),
                           [&](std::size_t i, std::size_t j) { return worth_of(ours[i], theirs[j]); });
  }

  // Rearrangements that the program asks for come before those that belong to how a computation is written.
  int worth_of(std::int32_t f, std::int32_t r) const {
    const int same = alike(op(f_, f), op(r_, r));
    return same == 0 ? 0 : 2 * same + (rearranges_only(r) ? 1 : 0);
  }

  bool rearranges_only(std::int32_t r) const {
    const auto& units = placement_.reference.units_of_node[r];
    return std::all_of(units.begin(), units.end(),
                       [&](std::int32_t unit) { return placement_.reference.nodes_of_unit[unit].empty(); });
  }

  void vote(const std::vector<std::int32_t>& ours, const std::vector<std::int32_t>& theirs) {
    const auto worth = [&](std::size_t i, std::size_t j) { return alike(op(f_, ours[i]), op(r_, theirs[j])); };
    const auto pairs = pair_up(ours, theirs);
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      const auto [i, j] = pairs[p];
      std::vector<std::int32_t> units = placement_.reference.units_of_node[theirs[j]];
      // Reshapes that follow each other are merged by many tools: one of ours, all of theirs up to the next pair.
      const std::size_t before = p == 0 ? 0 : pairs[p - 1].second + 1;
      const std::size_t after = p + 1 == pairs.size() ? theirs.size() : pairs[p + 1].second;
      const bool alone = (i == 0 || worth(i - 1, j) == 0) && (i + 1 == ours.size() || worth(i + 1, j) == 0);
      for (std::size_t k = j; alone && k-- > before && worth(i, k) > 1 && rearranges_only(theirs[k]);)
        add(units, theirs[k]);
      for (std::size_t k = j + 1; alone && k < after && worth(i, k) > 1 && rearranges_only(theirs[k]); ++k) {
        add(units, theirs[k]);
      }
      votes_[ours[i]].push_back({units, ours.size() == theirs.size() && pairs.size() == ours.size()});
    }
  }

  // The loose value at which the way to `value` begins.
  static std::int32_t origin(const Structure& s, const std::vector<std::int32_t>& way, std::int32_t value) {
    if (way.empty()) return s.loose(value);
    for (const std::int32_t input : s.nodes[way.front()].inputs) {
      if (input >= 0 && !s.values[input].constant) return s.loose(input);
    }
    return -1;
  }

  void add(std::vector<std::int32_t>& units, std::int32_t node) const {
    const auto& more = placement_.reference.units_of_node[node];
    units.insert(units.end(), more.begin(), more.end());
  }

  Placement& placement_;
  const Structure& f_;
  const Structure& r_;
  std::vector<std::vector<Vote>> votes_;
};

// A rearrangement without counterpart: a bias or scale belongs to its product; one beside a Gemm was put there for it;
// any other goes with the neighbour whose operation is known to use this operator, else with what reads it.
void place_leftover(Placement& placement, std::int32_t node) {
  const Structure& f = placement.foreign;
  const StructureNode& entry = f.nodes[node];
  const auto take = [&](std::int32_t from, Confidence confidence) {
    const NodeMatch& other = placement.matches[from];
    placement.matches[node] = other;
    placement.matches[node].confidence = std::max(confidence, other.confidence);
    placement.matches[node].rule = MatchRule::dataflow;
  };
  const auto before = placement.sources(node), after = placement.readers(node);
  const auto placed = [&](std::int32_t other) { return placement.placed(other); };
  const auto of_product = [&](std::int32_t other) {
    const std::string_view op = f.nodes[other].op_type;
    return op == "MatMulInteger" || op == "ConvInteger";
  };
  const bool elementwise =
      entry.op_type == "Add" || entry.op_type == "Mul" || (!before.empty() && of_product(before.front()));
  if (elementwise && !before.empty() && placed(before.front())) {
    return take(before.front(), Confidence::matched);
  }
  for (const auto* side : {&before, &after}) {
    for (const std::int32_t other : *side) {
      if (f.nodes[other].op_type == "Gemm" && placed(other)) return take(other, Confidence::matched);
    }
  }
  for (const std::int32_t a : before) {
    for (const std::int32_t b : after) {
      if (placed(a) && placed(b) && placement.matches[a].scope == placement.matches[b].scope) {
        return take(a, Confidence::inferred);
      }
    }
  }
  for (const auto* side : {&after, &before}) {
    if (const std::int32_t other = placement.speaker_for(node, *side); other >= 0) {
      return take(other, Confidence::ancestor);
    }
  }
  for (const auto* side : {&after, &before}) {
    for (const std::int32_t other : *side) {
      if (placed(other)) return take(other, Confidence::ancestor);
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
}

void place_leftovers(Placement& placement) {
  const Structure& f = placement.foreign;
  for (const std::int32_t node : f.order) {
    if (f.nodes[node].kind == NodeKind::transparent && !placement.placed(node)) place_leftover(placement, node);
  }
}

}  // namespace whence::match
