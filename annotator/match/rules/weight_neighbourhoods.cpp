// Compares nodes by the sizes of their weights, of the weights before and after them, and so on outwards. A node is a
// seed if this neighbourhood occurs once in both graphs. For parts of a model with other names and weights that a tool
// changed. Colour refinement (Weisfeiler, Leman, 1968) over only the nodes that read matrices, so that it does not
// matter how the computation between them is expressed.
#include <algorithm>
#include <utility>

#include "annotator/match/attribute_digest.h"
#include "annotator/match/rules/rule.h"
#include "schema/flat_map.h"
#include "schema/sort_unique.h"

namespace whence::match {
namespace {

constexpr int rounds = 6;            // size of the neighbourhood, in nodes that read matrices
constexpr std::size_t max_near = 8;  // neighbours that a node's colour includes
constexpr double strength = 0;       // only a seed, no support for a pair

template <Side S>
using Nodes = std::vector<NodeIndex<S>>;

// Returns the digest of a node's operator and the sizes of its matrices; 0 for a node that reads no matrix.
template <Side S>
std::uint64_t own_colour(const Structure<S>& s, const StructureNode<S>& node) {
  if (node.kind != NodeKind::heavy) return 0;
  AttributeDigest digest("weights");
  bool reads = false;
  for (const ValueIndex<S> input : node.inputs) {
    if (!input.exists() || !s.values[input].constant) continue;
    const TensorIndex<S> tensor = s.root_tensor(input);
    if (!tensor.exists() || s.tensors[tensor].is_vector()) continue;
    std::vector<std::int64_t> dims = s.tensors[tensor].dims;
    if (dims.size() == 2) std::sort(dims.begin(), dims.end());  // products differ in which side is transposed
    for (const std::int64_t size : dims) digest.add(static_cast<std::uint64_t>(size));
    reads = true;
  }
  digest.add(std::uint64_t{node.op_class});
  return reads ? digest.value() : 0;
}

// Mixes two colours. Colours are digests, so a product spreads their bits far enough.
std::uint64_t mixed(std::uint64_t colour, std::uint64_t other) {
  colour = (colour ^ other) * 0x9e3779b97f4a7c15ULL;
  return colour ^ (colour >> 32);
}

template <Side S>
void join(Nodes<S>& into, const Nodes<S>& more) {
  into.insert(into.end(), more.begin(), more.end());
  sort_unique(into);
  if (into.size() > max_near) into.resize(max_near);
}

template <Side S>
class Neighbourhoods {
  using Node = NodeIndex<S>;
  using Value = ValueIndex<S>;

 public:
  explicit Neighbourhoods(const Structure<S>& structure)
      : s_(structure), colours_(structure.nodes.size()), before_(colours_.size()), after_(colours_.size()) {
    for (const Node i : colours_.keys()) colours_[i] = own_colour(s_, s_.nodes[i]);
    look_back();
    look_ahead();
  }

  std::uint64_t colour(Node node) const { return colours_[node]; }

  void widen() {
    IndexedVector<Node, std::uint64_t> wider(colours_.size(), 0);
    std::vector<std::uint64_t> near;
    for (const Node i : colours_.keys()) {
      if (colours_[i] == 0) continue;
      std::uint64_t colour = colours_[i];
      for (const Nodes<S>* side : {&before_[i], &after_[i]}) {
        colour = mixed(colour, 1);  // separates neighbours before and after the node
        near.clear();
        for (const auto node : *side) near.push_back(colours_[node]);
        sort_unique(near);
        for (const std::uint64_t each : near) colour = mixed(colour, each);
      }
      wider[i] = colour == 0 ? 1 : colour;
    }
    colours_ = std::move(wider);
  }

 private:
  // Finds the nearest nodes with matrices on every path to a value, in execution order.
  void look_back() {
    IndexedVector<Value, Nodes<S>> into(s_.values.size());
    for (const Node index : s_.order) {
      const auto& node = s_.nodes[index];
      Nodes<S> near;
      for (const Value input : node.inputs) {
        if (input.exists() && !s_.values[input].constant) join<S>(near, into[input]);
      }
      const bool coloured = colours_[index] != 0;
      if (coloured) before_[index] = std::exchange(near, {index});
      for (const Value output : node.outputs) {
        if (output.exists()) join<S>(into[output], near);
      }
    }
  }

  void look_ahead() {
    IndexedVector<Value, Nodes<S>> out_of(s_.values.size());
    for (auto index = s_.order.rbegin(); index != s_.order.rend(); ++index) {
      const auto& node = s_.nodes[*index];
      Nodes<S> near;
      for (const Value output : node.outputs) {
        if (output.exists()) join<S>(near, out_of[output]);
      }
      const bool coloured = colours_[*index] != 0;
      if (coloured) after_[*index] = std::exchange(near, {*index});
      for (const Value input : node.inputs) {
        if (input.exists() && !s_.values[input].constant) join<S>(out_of[input], near);
      }
    }
  }

  const Structure<S>& s_;
  IndexedVector<Node, std::uint64_t> colours_;
  IndexedVector<Node, Nodes<S>> before_, after_;  // empty for nodes that read no matrix
};

}  // namespace

void weight_neighbourhoods(const RuleContext& context, EvidenceTable& table) {
  const ForeignStructure& foreign = context.foreign.structure;
  const ReferenceStructure& reference = context.reference.structure;
  Neighbourhoods foreign_neighbourhoods(foreign);
  Neighbourhoods reference_neighbourhoods(reference);
  IndexedVector<ForeignNode, bool> found(foreign.nodes.size(), false);
  for (int round = 0; round < rounds; ++round) {
    struct Holders {
      ForeignNode node;
      UnitIndex unit;
      bool is_ambiguous = false;
    };
    FlatMap<std::uint64_t, Holders> holders;
    for (const ReferenceNode i : reference.nodes.keys()) {
      if (reference_neighbourhoods.colour(i) == 0 || context.reference.units_of_node[i].size() != 1) continue;
      Holders& entry = holders[reference_neighbourhoods.colour(i)];
      const UnitIndex unit = context.reference.units_of_node[i].front();
      entry.is_ambiguous = entry.is_ambiguous || (entry.unit.exists() && entry.unit != unit);
      entry.unit = unit;
    }
    for (const ForeignNode i : foreign.nodes.keys()) {
      if (foreign_neighbourhoods.colour(i) == 0) continue;
      const auto entry = holders.find(foreign_neighbourhoods.colour(i));
      if (entry == holders.end()) continue;
      Holders& both = entry.value();
      both.is_ambiguous = both.is_ambiguous || both.node.exists();
      both.node = i;
    }
    for (const auto& [colour, entry] : holders) {
      if (entry.is_ambiguous || !entry.node.exists() || found[entry.node]) continue;
      found[entry.node] = true;
      table[entry.node].push_back({MatchRule::shapes, entry.unit, {}, strength, foreign.nodes[entry.node].name});
    }
    foreign_neighbourhoods.widen();
    reference_neighbourhoods.widen();
  }
}

}  // namespace whence::match
