// Places rearrangements (Reshape, Transpose, Cast, a bias) between two computing nodes: aligns them in order with the
// rearrangements of the reference on the same path. A rearrangement that the reference lacks gets the module of a
// neighbour.
#include <algorithm>
#include <functional>

#include "annotator/match/placement.h"
#include "annotator/operators/onnx_operators.h"

namespace whence::match {

using origin::Confidence;

namespace {

constexpr std::size_t max_path = 64;

template <Side S>
using HasPartner = std::function<bool(ValueIndex<S>)>;

// Some tools use an Expand that repeats nothing instead of a Reshape.
bool is_reshape(std::string_view op) { return operators::has(op, operators::reshapes) || op == "Expand"; }

// Returns 3 for the same operator, 2 for two reshapes, which may represent each other, else 0.
int similarity(std::string_view a, std::string_view b) {
  if (a == b) return 3;
  return is_reshape(a) && is_reshape(b) ? 2 : 0;
}

bool is_integer_product(const ForeignStructure& f, ForeignNode node) {
  return operators::has(f.nodes[node].op_type, operators::integer_result);
}

template <Side S>
std::ptrdiff_t count_reshapes(const Structure<S>& s, const std::vector<NodeIndex<S>>& path) {
  return std::ranges::count_if(path, [&](NodeIndex<S> node) { return is_reshape(s.nodes[node].op_type); });
}

// Returns the rearrangements before a value, and cheap arithmetic that only this side has, in order of execution. The
// path begins after a value that has a partner.
template <Side S>
std::vector<NodeIndex<S>> path_to(const Structure<S>& s, ValueIndex<S> value, const HasPartner<S>& has_partner) {
  std::vector<NodeIndex<S>> path;
  while (value.exists() && path.size() < max_path) {
    const auto& makers = s.values[value].producers;
    const bool rearranged = std::any_of(makers.begin(), makers.end(),
                                        [&](NodeIndex<S> each) { return s.nodes[each].kind == NodeKind::transparent; });
    if (!rearranged && has_partner(s.loose(value))) break;
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
    path.push_back(next);
    value = from;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

class LayoutPaths {
 public:
  explicit LayoutPaths(Placement& placement)
      : placement_(placement), f_(placement.foreign), r_(placement.reference.structure), votes_(f_.nodes.size()) {}

  // Aligns the path to each operand of `f` with the most similar path to an operand of `r` or of another form of `r`.
  void align_into(ForeignNode f, ReferenceNode r) {
    const auto& node = f_.nodes[f];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ForeignValue value = node.inputs[i];
      if (!value.exists() || f_.values[value].constant) continue;
      const auto path = path_to(f_, value, foreign_has_partner());
      if (path.empty()) continue;
      const ReferenceValue start = placement_.pairs.partner(origin(f_, path, value));
      const bool into_product = is_integer_product(f_, f);
      std::vector<ReferenceNode> best;
      std::vector<ForeignNode> best_f_path;
      int best_score = -1;
      const auto consider = [&](ReferenceValue operand) {
        if (!operand.exists() || r_.values[operand].constant) return;
        const auto reference_path = path_to(r_, operand, reference_has_partner());
        if (origin(r_, reference_path, operand) != start) return;
        int score = 0;
        auto f_path = without_flattening(path, reference_path, into_product);
        for (const auto& [a, b] : pair_up(f_path, reference_path)) score += score_of(f_path[a], reference_path[b]);
        score = std::max(score * 16 - static_cast<int>(reference_path.size()), 0);
        if (score <= best_score) return;
        best_score = score;
        best = reference_path;
        best_f_path = std::move(f_path);
      };
      for (const ReferenceNode form : forms_of(r)) {
        const auto& inputs = r_.nodes[form].inputs;
        if (i < inputs.size()) consider(inputs[i]);
        for (const ReferenceValue operand : inputs) consider(operand);
      }
      vote(best_f_path, best);
    }
  }

  void align(ForeignValue fv, ReferenceValue rv) {
    const auto reference_path = path_to(r_, rv, reference_has_partner());
    vote(without_flattening(path_to(f_, fv, foreign_has_partner()), reference_path, false), reference_path);
  }

  void decide() {
    for (const ForeignNode f : votes_.keys()) {
      if (votes_[f].empty() || placement_.settled(f)) continue;
      // Paths that share nodes may disagree on them; the complete alignment wins, then the first one.
      const Vote* best = &votes_[f].front();
      bool agree = true;
      for (const Vote& vote : votes_[f]) {
        agree &= vote.units == best->units;
        if (vote.complete && !best->complete) best = &vote;
      }
      // Names decide later which of the operations the node is for.
      const bool shared = best->shared && !placement_.one_scope(best->units);
      const Confidence confidence = agree && best->complete ? Confidence::matched : Confidence::inferred;
      placement_.place(f, best->units, shared ? Confidence::ancestor : confidence, MatchRule::layout);
      placement_.matches[f].shared = shared;
    }
  }

 private:
  struct Vote {
    std::vector<UnitIndex> units;
    bool complete;
    bool shared;  // the reference's node serves several operations, such as a size that several of them read
  };

  HasPartner<Side::foreign> foreign_has_partner() const {
    return [this](ForeignValue value) {
      const auto& makers = f_.makers(value);
      return placement_.pairs.partner(value).exists() &&
             (makers.empty() || std::any_of(makers.begin(), makers.end(), [&](ForeignNode maker) {
                return placement_.pairs.partner(maker).exists() || !placement_.pairs.joint_units(maker).empty();
              }));
    };
  }
  HasPartner<Side::reference> reference_has_partner() const {
    return [this](ReferenceValue value) { return placement_.pairs.partner(value).exists(); };
  }

  // Returns the node and the nodes that represent the same unit in other forms of the reference.
  std::vector<ReferenceNode> forms_of(ReferenceNode r) const {
    std::vector<ReferenceNode> forms = {r};
    const auto& units = placement_.reference.units_of_node[r];
    if (units.empty()) return forms;
    for (const ReferenceNode other : placement_.reference.nodes_of_unit[units.front()]) {
      if (other != r && r_.nodes[other].op_class == r_.nodes[r].op_class && forms.size() < 16) forms.push_back(other);
    }
    return forms;
  }

  // Returns the path without the Reshapes that a tool put around integer products, if the path has more Reshapes than
  // that of the reference: the first one if the path begins at a product, the last one if it ends at a product.
  std::vector<ForeignNode> without_flattening(std::vector<ForeignNode> path, const std::vector<ReferenceNode>& r_path,
                                              bool into_product) const {
    const auto reshapes = [&](ForeignNode node) { return is_reshape(f_.nodes[node].op_type); };
    if (count_reshapes(f_, path) > count_reshapes(r_, r_path) && !path.empty()) {
      const auto sources = placement_.sources(path.front());
      const bool out_of_product = !sources.empty() && is_integer_product(f_, sources.front());
      if (const auto first = std::ranges::find_if(path, reshapes); out_of_product) path.erase(first);
    }
    if (into_product && count_reshapes(f_, path) > count_reshapes(r_, r_path)) {
      path.erase(std::prev(std::find_if(path.rbegin(), path.rend(), reshapes).base()));
    }
    return path;
  }

  std::vector<std::pair<std::size_t, std::size_t>> pair_up(const std::vector<ForeignNode>& f_path,
                                                           const std::vector<ReferenceNode>& r_path) const {
    return align_sequences(f_path.size(), r_path.size(),
                           [&](std::size_t i, std::size_t j) { return score_of(f_path[i], r_path[j]); });
  }

  // Ranks rearrangements that the program contains above those that are part of how a computation is expressed.
  int score_of(ForeignNode f, ReferenceNode r) const {
    const int same = similarity(f_.nodes[f].op_type, r_.nodes[r].op_type);
    return same == 0 ? 0 : 2 * same + (rearranges_only(r) ? 1 : 0);
  }

  bool rearranges_only(ReferenceNode r) const {
    const auto& units = placement_.reference.units_of_node[r];
    return std::all_of(units.begin(), units.end(),
                       [&](UnitIndex unit) { return placement_.reference.nodes_of_unit[unit].empty(); });
  }

  void vote(const std::vector<ForeignNode>& f_path, const std::vector<ReferenceNode>& r_path) {
    const auto score = [&](std::size_t i, std::size_t j) {
      return similarity(f_.nodes[f_path[i]].op_type, r_.nodes[r_path[j]].op_type);
    };
    const auto pairs = pair_up(f_path, r_path);
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      const auto [i, j] = pairs[p];
      std::vector<UnitIndex> units = placement_.reference.units_of_node[r_path[j]];
      // Many tools merge consecutive Reshapes: one foreign node represents all of the reference's up to the next pair.
      const std::size_t before = p == 0 ? 0 : pairs[p - 1].second + 1;
      const std::size_t after = p + 1 == pairs.size() ? r_path.size() : pairs[p + 1].second;
      const bool is_single = (i == 0 || score(i - 1, j) == 0) && (i + 1 == f_path.size() || score(i + 1, j) == 0);
      for (std::size_t k = j; is_single && k-- > before && score(i, k) > 1 && rearranges_only(r_path[k]);)
        add(units, r_path[k]);
      for (std::size_t k = j + 1; is_single && k < after && score(i, k) > 1 && rearranges_only(r_path[k]); ++k) {
        add(units, r_path[k]);
      }
      votes_[f_path[i]].push_back({units, f_path.size() == r_path.size() && pairs.size() == f_path.size(),
                                   placement_.reference.shared_nodes.contains(r_path[j])});
    }
  }

  // Returns the loose value at which the path to `value` begins.
  template <Side S>
  static ValueIndex<S> origin(const Structure<S>& s, const std::vector<NodeIndex<S>>& path, ValueIndex<S> value) {
    if (path.empty()) return s.loose(value);
    for (const ValueIndex<S> input : s.nodes[path.front()].inputs) {
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

// Returns the nearest integer product or Reshape before (`back`) or after a node, through nodes that rescale and
// quantize; none if there is none.
ForeignNode nearest_product_or_reshape(const Placement& placement, ForeignNode node, bool back) {
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

// Returns the integer product for which a tool inserted the Reshape; none if there is none. Tools flatten the operand
// and restore the axes of the result, so there is a Reshape on either side; a single one is the model's.
ForeignNode product_of_reshape(const Placement& placement, ForeignNode node) {
  const ForeignStructure& f = placement.foreign;
  for (const bool back : {true, false}) {
    const ForeignNode product = nearest_product_or_reshape(placement, node, back);
    if (!product.exists() || !is_integer_product(f, product)) continue;
    const ForeignNode other = nearest_product_or_reshape(placement, product, back);
    if (other.exists() && is_reshape(f.nodes[other].op_type)) return product;
  }
  return {};
}

// Places a rearrangement without a counterpart. A bias or scale belongs to its product. A tool inserted one next to a
// Gemm, and a Reshape next to an integer product, for that product. Any other one belongs to a neighbour with an
// operation that uses this operator, else to its reader.
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
    const ForeignNode product = product_of_reshape(placement, node);
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
    if (const ForeignNode other = placement.first_with_operator_of(node, *side); other.exists()) {
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
  LayoutPaths paths(placement);
  for (const ForeignNode node : f.order) {
    if (placement.pairs.partner(node).exists() && !placement.pairs.is_guessed(node))
      paths.align_into(node, placement.pairs.partner(node));
  }
  for (const ForeignValue output : f.outputs) {
    const ReferenceValue partner = placement.pairs.partner(f.loose(output));
    for (const ReferenceValue other : r.outputs) {
      if (partner.exists() && r.loose(other) == partner) {
        paths.align(output, other);
        break;
      }
    }
  }
  paths.decide();
}

void place_leftovers(Placement& placement) {
  const ForeignStructure& f = placement.foreign;
  for (const ForeignNode node : f.order) {
    if (f.nodes[node].kind == NodeKind::transparent && !placement.settled(node)) place_leftover(placement, node);
  }
}

}  // namespace whence::match
