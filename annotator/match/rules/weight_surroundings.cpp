// Sizes of weights, of the weights before and after, and so on outwards: what is the only one of its surroundings in
// both graphs is a place to start from. For a part of a model under other names, with weights that a tool changed.
// Colour refinement (Weisfeiler, Leman, 1968) over the nodes that read matrices alone, so that it does not matter how
// an exporter spells what lies between them.
#include <algorithm>
#include <unordered_map>

#include "annotator/match/digest_numbers.h"
#include "annotator/match/rules/rule.h"

namespace whence::match {
namespace {

constexpr int rounds = 6;             // how far the surroundings reach, in nodes that read matrices
constexpr std::size_t most_near = 8;  // neighbours that a node's colour takes in
constexpr double strength = 0;        // a place to start, no support for a pair that has others

using Nodes = std::vector<std::int32_t>;

// 0 for a node that reads no matrix.
std::uint64_t own_colour(const Structure& s, const StructureNode& node) {
  if (node.kind != NodeKind::heavy) return 0;
  AttributeDigest digest("weights");
  bool reads = false;
  for (const std::int32_t input : node.inputs) {
    if (input < 0 || !s.values[input].constant) continue;
    const std::int32_t tensor = s.root_tensor(input);
    if (tensor < 0 || s.tensors[tensor].is_vector()) continue;
    std::vector<std::int64_t> dims = s.tensors[tensor].dims;
    if (dims.size() == 2) std::sort(dims.begin(), dims.end());  // which of both a product reads transposed, varies
    for (const std::int64_t size : dims) digest.add(static_cast<std::uint64_t>(size));
    reads = true;
  }
  digest.add(std::uint64_t{node.op_class});
  return reads ? digest.value() : 0;
}

void join(Nodes& into, const Nodes& more) {
  into.insert(into.end(), more.begin(), more.end());
  std::sort(into.begin(), into.end());
  into.erase(std::unique(into.begin(), into.end()), into.end());
  if (into.size() > most_near) into.resize(most_near);
}

class Surroundings {
 public:
  explicit Surroundings(const Structure& structure)
      : s_(structure), colours_(structure.nodes.size()), before_(colours_.size()), after_(colours_.size()) {
    for (std::size_t i = 0; i < colours_.size(); ++i) colours_[i] = own_colour(s_, s_.nodes[i]);
    look_back();
    look_ahead();
  }

  std::uint64_t colour(std::size_t node) const { return colours_[node]; }

  void widen() {
    std::vector<std::uint64_t> wider(colours_.size(), 0);
    for (std::size_t i = 0; i < colours_.size(); ++i) {
      if (colours_[i] == 0) continue;
      AttributeDigest digest("wider");
      digest.add(colours_[i]);
      for (const Nodes* side : {&before_[i], &after_[i]}) {
        digest.add(std::string_view("|"));
        std::vector<std::uint64_t> near;
        for (const std::int32_t node : *side) near.push_back(colours_[node]);
        std::sort(near.begin(), near.end());
        near.erase(std::unique(near.begin(), near.end()), near.end());
        for (const std::uint64_t each : near) digest.add(each);
      }
      wider[i] = digest.value();
    }
    colours_ = std::move(wider);
  }

 private:
  // The nearest nodes with matrices on every way into a value, found in execution order.
  void look_back() {
    std::vector<Nodes> into(s_.values.size());
    for (const std::int32_t index : s_.order) {
      const StructureNode& node = s_.nodes[index];
      for (const std::int32_t input : node.inputs) {
        if (input >= 0 && !s_.values[input].constant) join(before_[index], into[input]);
      }
      for (const std::int32_t output : node.outputs) {
        if (output >= 0) join(into[output], colours_[index] != 0 ? Nodes{index} : before_[index]);
      }
    }
  }

  void look_ahead() {
    std::vector<Nodes> out_of(s_.values.size());
    for (auto index = s_.order.rbegin(); index != s_.order.rend(); ++index) {
      const StructureNode& node = s_.nodes[*index];
      for (const std::int32_t output : node.outputs) {
        if (output >= 0) join(after_[*index], out_of[output]);
      }
      for (const std::int32_t input : node.inputs) {
        if (input < 0 || s_.values[input].constant) continue;
        join(out_of[input], colours_[*index] != 0 ? Nodes{*index} : after_[*index]);
      }
    }
  }

  const Structure& s_;
  std::vector<std::uint64_t> colours_;
  std::vector<Nodes> before_, after_;
};

}  // namespace

void weight_surroundings(const RuleContext& context, EvidenceTable& table) {
  const Structure& foreign = context.foreign.structure;
  const Structure& reference = context.reference.structure;
  Surroundings ours(foreign), theirs(reference);
  std::vector<bool> found(foreign.nodes.size(), false);
  for (int round = 0; round < rounds; ++round) {
    struct Holders {
      std::int32_t node = -1, unit = -1;
      bool several = false;
    };
    std::unordered_map<std::uint64_t, Holders> holders;
    for (std::size_t i = 0; i < reference.nodes.size(); ++i) {
      if (theirs.colour(i) == 0 || context.reference.units_of_node[i].size() != 1) continue;
      Holders& entry = holders[theirs.colour(i)];
      const std::int32_t unit = context.reference.units_of_node[i].front();
      entry.several = entry.several || (entry.unit >= 0 && entry.unit != unit);
      entry.unit = unit;
    }
    for (std::size_t i = 0; i < foreign.nodes.size(); ++i) {
      if (ours.colour(i) == 0) continue;
      const auto entry = holders.find(ours.colour(i));
      if (entry == holders.end()) continue;
      entry->second.several = entry->second.several || entry->second.node >= 0;
      entry->second.node = static_cast<std::int32_t>(i);
    }
    for (const auto& [colour, entry] : holders) {
      if (entry.several || entry.node < 0 || found[entry.node]) continue;
      found[entry.node] = true;
      table[entry.node].push_back({MatchRule::shapes, entry.unit, -1, strength, foreign.nodes[entry.node].name});
    }
    ours.widen();
    theirs.widen();
  }
}

}  // namespace whence::match
