// Places rearrangements (Reshape, Transpose, Cast, a bias) between two computing nodes: aligns them in order with those
// of the reference on the same path. A rearrangement that the reference lacks gets the place of its neighbours.
#include <algorithm>
#include <functional>

#include "annotator/match/placement.h"
#include "annotator/operators/onnx_operators.h"

namespace whence::match {

using origin::Confidence;

namespace {

constexpr std::size_t longest_way = 64;

template <Side S>
using Known = std::function<bool(ValueIndex<S>)>;  // true for a value that has a partner on the other side

// Some tools write an Expand where others reshape, as nothing may be repeated.
bool is_reshape(std::string_view op) { return operators::has(op, operators::reshapes) || op == "Expand"; }

// Rearrangements of one kind may stand for each other: 3 for the same operator, 2 for one of the same kind.
int alike(std::string_view a, std::string_view b) {
  if (a == b) return 3;
  return is_reshape(a) && is_reshape(b) ? 2 : 0;
}

bool is_integer_product(const ForeignStructure& f, ForeignNode node) {
  return operators::has(f.nodes[node].op_type, operators::integer_result);
}

template <Side S>
std::ptrdiff_t count_reshapes(const Structure<S>& s, const std::vector<NodeIndex<S>>& way) {
  return std::ranges::count_if(way, [&](NodeIndex<S> node) { return is_reshape(s.nodes[node].op_type); });
}

// The nodes from a value back to what it is computed from, first one first: rearrangements, and cheap arithmetic that
// only this side has. `known` tells the values that have a partner: there the way ends.
template <Side S>
std::vector<NodeIndex<S>> way_to(const Structure<S>& s, ValueIndex<S> value, const Known<S>& known) {
  std::vector<NodeIndex<S>> way;
  while (value.exists() && way.size() < longest_way) {
    const auto& makers = s.values[value].producers;
    const bool rearranged = std::any_of(makers.begin(), makers.end(),
                                        [&](NodeIndex<S> each) { return s.nodes[each].kind == NodeKind::transparent; });
    if (!rearranged && known(s.loose(value))) break;
    NodeIndex<S> next;
    ValueIndex<S> from;
    for (const NodeIndex<S> producer : s.values[value].producers) {
      const auto& node = s.nodes[producer];
      if (rearranged != (node.kind == NodeKind::transparent) || node.kind == NodeKind::constant) continue;
      int count = 0;
      for (const ValueIndex<S> input : node.inputs) {
        if (!input.exists() || s.values[input].constant) continue;
        if (rearranged && s.loose(input) != s.loose(value)) continue;
        if (count++ == 0) from = input;
      }
      if (rearranged ? count > 0 : count == 1) {
        next = producer;
        break;
      }
    }
    if (!next.exists()) break;
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
  void align_into(ForeignNode f, ReferenceNode r) {
    const auto& node = f_.nodes[f];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ForeignValue value = node.inputs[i];
      if (!value.exists() || f_.values[value].constant) continue;
      const auto way = way_to(f_, value, known_in_foreign());
      if (way.empty()) continue;
      const ReferenceValue start = placement_.pairs.partner(origin(f_, way, value));
      const bool into_product = is_integer_product(f_, f);
      std::vector<ReferenceNode> best;
      std::vector<ForeignNode> best_own;
      int best_worth = -1;
      const auto consider = [&](ReferenceValue operand) {
        if (!operand.exists() || r_.values[operand].constant) return;
        const auto reference_way = way_to(r_, operand, known_in_reference());
        if (origin(r_, reference_way, operand) != start) return;
        int worth = 0;
        auto own = without_flattening(way, reference_way, into_product);
        for (const auto& [a, b] : pair_up(own, reference_way)) worth += worth_of(own[a], reference_way[b]);
        worth = std::max(worth * 16 - static_cast<int>(reference_way.size()), 0);
        if (worth <= best_worth) return;
        best_worth = worth;
        best = reference_way;
        best_own = std::move(own);
      };
      for (const ReferenceNode form : forms_of(r)) {
        const auto& inputs = r_.nodes[form].inputs;
        if (i < inputs.size()) consider(inputs[i]);
        for (const ReferenceValue operand : inputs) consider(operand);
      }
      vote(best_own, best);
    }
  }

  void align(ForeignValue fv, ReferenceValue rv) {
    const auto reference_way = way_to(r_, rv, known_in_reference());
    vote(without_flattening(way_to(f_, fv, known_in_foreign()), reference_way, false), reference_way);
  }

  void decide() {
    for (const ForeignNode f : votes_.keys()) {
      if (votes_[f].empty() || placement_.settled(f)) continue;
      // Ways that share a stretch may disagree on it; the complete alignment wins, then the first.
      const Vote* best = &votes_[f].front();
      bool agree = true;
      for (const Vote& vote : votes_[f]) {
        agree &= vote.units == best->units;
        if (vote.complete && !best->complete) best = &vote;
      }
      placement_.place(f, best->units, agree && best->complete ? Confidence::matched : Confidence::inferred,
                       MatchRule::layout);
    }
  }

 private:
  struct Vote {
    std::vector<UnitIndex> units;
    bool complete;
  };

  Known<Side::foreign> known_in_foreign() const {
    return [this](ForeignValue value) {
      const auto& makers = f_.makers(value);
      return placement_.pairs.partner(value).exists() &&
             (makers.empty() || std::any_of(makers.begin(), makers.end(), [&](ForeignNode maker) {
                return placement_.pairs.partner(maker).exists() || !placement_.pairs.joint_units(maker).empty();
              }));
    };
  }
  Known<Side::reference> known_in_reference() const {
    return [this](ReferenceValue value) { return placement_.pairs.partner(value).exists(); };
  }

  // Returns the nodes that stand for the same in other forms of the reference, itself first.
  std::vector<ReferenceNode> forms_of(ReferenceNode r) const {
    std::vector<ReferenceNode> forms = {r};
    const auto& units = placement_.reference.units_of_node[r];
    if (units.empty()) return forms;
    for (const ReferenceNode other : placement_.reference.nodes_of_unit[units.front()]) {
      if (other != r && r_.nodes[other].op_class == r_.nodes[r].op_class && forms.size() < 16) forms.push_back(other);
    }
    return forms;
  }

  // Returns the way without the Reshapes that a tool put around products of integers, where the way has more Reshapes
  // than that of the reference: the one behind a product that it begins with, the one before a product that it leads
  // to.
  std::vector<ForeignNode> without_flattening(std::vector<ForeignNode> way, const std::vector<ReferenceNode>& r_way,
                                              bool into_product) const {
    const auto reshapes = [&](ForeignNode node) { return is_reshape(f_.nodes[node].op_type); };
    if (count_reshapes(f_, way) > count_reshapes(r_, r_way) && !way.empty()) {
      const auto sources = placement_.sources(way.front());
      const bool out_of_product = !sources.empty() && is_integer_product(f_, sources.front());
      if (const auto first = std::ranges::find_if(way, reshapes); out_of_product) way.erase(first);
    }
    if (into_product && count_reshapes(f_, way) > count_reshapes(r_, r_way)) {
      way.erase(std::prev(std::find_if(way.rbegin(), way.rend(), reshapes).base()));
    }
    return way;
  }

  std::vector<std::pair<std::size_t, std::size_t>> pair_up(const std::vector<ForeignNode>& f_way,
                                                           const std::vector<ReferenceNode>& r_way) const {
    return align_sequences(f_way.size(), r_way.size(),
                           [&](std::size_t i, std::size_t j) { return worth_of(f_way[i], r_way[j]); });
  }

  // Rearrangements that the program asks for come before those that belong to how a computation is written.
  int worth_of(ForeignNode f, ReferenceNode r) const {
    const int same = alike(f_.nodes[f].op_type, r_.nodes[r].op_type);
    return same == 0 ? 0 : 2 * same + (rearranges_only(r) ? 1 : 0);
  }

  bool rearranges_only(ReferenceNode r) const {
    const auto& units = placement_.reference.units_of_node[r];
    return std::all_of(units.begin(), units.end(),
                       [&](UnitIndex unit) { return placement_.reference.nodes_of_unit[unit].empty(); });
  }

  void vote(const std::vector<ForeignNode>& f_way, const std::vector<ReferenceNode>& r_way) {
    const auto worth = [&](std::size_t i, std::size_t j) {
      return alike(f_.nodes[f_way[i]].op_type, r_.nodes[r_way[j]].op_type);
    };
    const auto pairs = pair_up(f_way, r_way);
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      const auto [i, j] = pairs[p];
      std::vector<UnitIndex> units = placement_.reference.units_of_node[r_way[j]];
      // Reshapes that follow each other are merged by many tools: one of ours, all of theirs up to the next pair.
      const std::size_t before = p == 0 ? 0 : pairs[p - 1].second + 1;
      const std::size_t after = p + 1 == pairs.size() ? r_way.size() : pairs[p + 1].second;
      const bool alone = (i == 0 || worth(i - 1, j) == 0) && (i + 1 == f_way.size() || worth(i + 1, j) == 0);
      for (std::size_t k = j; alone && k-- > before && worth(i, k) > 1 && rearranges_only(r_way[k]);)
        add(units, r_way[k]);
      for (std::size_t k = j + 1; alone && k < after && worth(i, k) > 1 && rearranges_only(r_way[k]); ++k) {
        add(units, r_way[k]);
      }
      votes_[f_way[i]].push_back({units, f_way.size() == r_way.size() && pairs.size() == f_way.size()});
    }
  }

  // The loose value at which the way to `value` begins.
  template <Side S>
  static ValueIndex<S> origin(const Structure<S>& s, const std::vector<NodeIndex<S>>& way, ValueIndex<S> value) {
    if (way.empty()) return s.loose(value);
    for (const ValueIndex<S> input : s.nodes[way.front()].inputs) {
      if (input.exists() && !s.values[input].constant) return s.loose(input);
    }
    return {};
  }

  void add(std::vector<UnitIndex>& units, ReferenceNode node) const {
    const auto& more = placement_.reference.units_of_node[node];
    units.insert(units.end(), more.begin(), more.end());
  }

  Placement& placement_;
  const ForeignStructure& f_;
  const ReferenceStructure& r_;
  IndexedVector<ForeignNode, std::vector<Vote>> votes_;
};

// Returns the nearest product of integers or Reshape before (`back`) or behind a node, through what rescales and
// quantizes; none if there is none.
ForeignNode product_or_reshape_beside(const Placement& placement, ForeignNode node, bool back) {
  const ForeignStructure& f = placement.foreign;
  for (int steps = 0; steps < 6; ++steps) {
    const auto next = back ? placement.sources(node) : placement.readers(node);
    if (next.empty()) return {};
    node = next.front();
    if (is_integer_product(f, node) || is_reshape(f.nodes[node].op_type)) return node;
    if (f.nodes[node].kind != NodeKind::transparent) return {};
  }
  return {};
}

// Returns the product of integers that a Reshape was put there for; none if it is none's. Tools flatten the operand and
// put the axes of the result back, so there is one on either side; a single one is the model's.
ForeignNode flattened_product_beside(const Placement& placement, ForeignNode node) {
  const ForeignStructure& f = placement.foreign;
  for (const bool back : {true, false}) {
    const ForeignNode product = product_or_reshape_beside(placement, node, back);
    if (!product.exists() || !is_integer_product(f, product)) continue;
    const ForeignNode other = product_or_reshape_beside(placement, product, back);
    if (other.exists() && is_reshape(f.nodes[other].op_type)) return product;
  }
  return {};
}

// A rearrangement without counterpart: a bias or scale belongs to its product; one beside a Gemm, or a Reshape beside a
// product of integers, was put there for it; any other goes with the neighbour whose operation is known to use this
// operator, else with what reads it.
void place_leftover(Placement& placement, ForeignNode node) {
  const ForeignStructure& f = placement.foreign;
  const auto& entry = f.nodes[node];
  const auto take = [&](ForeignNode from, Confidence confidence) {
    const NodeMatch& other = placement.matches[from];
    placement.matches[node] = other;
    placement.matches[node].confidence = std::max(confidence, other.confidence);
    placement.matches[node].rule = MatchRule::dataflow;
  };
  const auto before = placement.sources(node), after = placement.readers(node);
  const auto placed = [&](ForeignNode other) { return placement.placed(other); };
  const bool elementwise =
      entry.op_type == "Add" || entry.op_type == "Mul" || (!before.empty() && is_integer_product(f, before.front()));
  if (elementwise && !before.empty() && placed(before.front())) {
    return take(before.front(), Confidence::matched);
  }
  for (const auto* side : {&before, &after}) {
    for (const ForeignNode other : *side) {
      if (f.nodes[other].op_type == "Gemm" && placed(other)) return take(other, Confidence::matched);
    }
  }
  if (is_reshape(entry.op_type)) {
    const ForeignNode product = flattened_product_beside(placement, node);
    if (product.exists() && placed(product)) return take(product, Confidence::inferred);
  }
  for (const ForeignNode a : before) {
    for (const ForeignNode b : after) {
      if (placed(a) && placed(b) && placement.matches[a].scope == placement.matches[b].scope) {
        return take(a, Confidence::inferred);
      }
    }
  }
  for (const auto* side : {&after, &before}) {
    if (const ForeignNode other = placement.speaker_for(node, *side); other.exists()) {
      return take(other, Confidence::ancestor);
    }
  }
  for (const auto* side : {&after, &before}) {
    for (const ForeignNode other : *side) {
      if (placed(other)) return take(other, Confidence::ancestor);
    }
  }
}

}  // namespace

void place_layout(Placement& placement) {
  const ForeignStructure& f = placement.foreign;
  const ReferenceStructure& r = placement.reference.structure;
  Ways ways(placement);
  for (const ForeignNode node : f.order) {
    if (placement.pairs.partner(node).exists() && !placement.pairs.is_guessed(node))
      ways.align_into(node, placement.pairs.partner(node));
  }
  for (const ForeignValue output : f.outputs) {
    const ReferenceValue partner = placement.pairs.partner(f.loose(output));
    for (const ReferenceValue other : r.outputs) {
      if (partner.exists() && r.loose(other) == partner) {
        ways.align(output, other);
        break;
      }
    }
  }
  ways.decide();
}

void place_leftovers(Placement& placement) {
  const ForeignStructure& f = placement.foreign;
  for (const ForeignNode node : f.order) {
    if (f.nodes[node].kind == NodeKind::transparent && !placement.settled(node)) place_leftover(placement, node);
  }
}

}  // namespace whence::match
