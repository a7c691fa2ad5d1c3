// Compares nodes by the sizes of their weights, of the weights before and after, and so on outwards: a node whose
// surroundings occur only once in both graphs is a seed. Serves for a part of a model under other names, with weights
// that a tool changed. Colour refinement (Weisfeiler, Leman, 1968) over only the nodes that read matrices, so that it
// does not matter how an exporter spells the computation between them.
#include <algorithm>
#include <utility>

#include "annotator/match/digest_numbers.h"
#include "annotator/match/rules/rule.h"
#include "schema/flat_map.h"
#include "schema/sort_unique.h"

namespace whence::match {
namespace {

constexpr int rounds = 6;            // how far the surroundings reach, in nodes that read matrices
constexpr std::size_t max_near = 8;  // neighbours that a node's colour takes in
constexpr double strength = 0;       // a place to start, no support for a pair that has others

template <Side S>
using Nodes = std::vector<NodeIndex<S>>;

// 0 for a node that reads no matrix.
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
    if (dims.size() == 2) std::sort(dims.begin(), dims.end());  // which of both a product reads transposed, varies
    for (const std::int64_t size : dims) digest.add(static_cast<std::uint64_t>(size));
    reads = true;
  }
  digest.add(std::uint64_t{node.op_class});
  return reads ? digest.value() : 0;
}

// Takes another colour into one; colours are digests, so that a product spreads their bits far enough.
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
class Surroundings {
  using Node = NodeIndex<S>;
  using Value = ValueIndex<S>;

 public:
  explicit Surroundings(const Structure<S>& structure)
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
        colour = mixed(colour, 1);  // tells what comes before the node from what comes behind it
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
  // The nearest nodes with matrices on every way into a value, found in execution order.
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

void weight_surroundings(const RuleContext& context, EvidenceTable& table) {
  const ForeignStructure& foreign = context.foreign.structure;
  const ReferenceStructure& reference = context.reference.structure;
  Surroundings foreign_surroundings(foreign);
  Surroundings reference_surroundings(reference);
  IndexedVector<ForeignNode, bool> found(foreign.nodes.size(), false);
  for (int round = 0; round < rounds; ++round) {
    struct Holders {
      ForeignNode node;
      UnitIndex unit;
      bool several = false;
    };
    FlatMap<std::uint64_t, Holders> holders;
    for (const ReferenceNode i : reference.nodes.keys()) {
      if (reference_surroundings.colour(i) == 0 || context.reference.units_of_node[i].size() != 1) continue;
      Holders& entry = holders[reference_surroundings.colour(i)];
      const UnitIndex unit = context.reference.units_of_node[i].front();
      entry.several = entry.several || (entry.unit.exists() && entry.unit != unit);
      entry.unit = unit;
    }
    for (const ForeignNode i : foreign.nodes.keys()) {
      if (foreign_surroundings.colour(i) == 0) continue;
      const auto entry = holders.find(foreign_surroundings.colour(i));
      if (entry == holders.end()) continue;
      Holders& both = entry.value();
      both.several = both.several || both.node.exists();
      both.node = i;
    }
    for (const auto& [colour, entry] : holders) {
      if (entry.several || !entry.node.exists() || found[entry.node]) continue;
      found[entry.node] = true;
      table[entry.node].push_back({MatchRule::shapes, entry.unit, {}, strength, foreign.nodes[entry.node].name});
    }
    foreign_surroundings.widen();
    reference_surroundings.widen();
  }
}

}  // namespace whence::match
