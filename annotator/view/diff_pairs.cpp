#include "annotator/view/diff_pairs.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>

#include "annotator/metadata/node_names.h"
#include "annotator/metadata/operation_ids.h"
#include "annotator/operators/onnx_operators.h"
#include "annotator/view/fusion_parts.h"
#include "annotator/view/operation_groups.h"

namespace whence::view {

using onnx_file::OnnxNode;

namespace {

constexpr std::size_t none = static_cast<std::size_t>(-1);
constexpr std::size_t largest_fusion = 200;  // nodes; a longer walk has left the fused region

bool same_operator(const OnnxNode& a, const OnnxNode& b) {
  return a.op_type == b.op_type && a.domain == b.domain && a.overload == b.overload;
}

// Conversions to and from ONNX Runtime's NCHWc layout; no exported model has them.
bool is_reorder(const OnnxNode& node) { return operators::has(node.op_type, operators::reorders); }

// A tool removes this node without a replacement: its readers then read its input.
bool does_nothing(const OnnxNode& node) { return operators::has(node.op_type, operators::does_nothing); }

std::string_view first_output(const OnnxNode& node) {
  const auto named = std::find_if(node.outputs.begin(), node.outputs.end(), [](auto name) { return !name.empty(); });
  return named == node.outputs.end() ? std::string_view{} : *named;
}

// Returns true if two identities share an operation.
bool share_operation(std::string_view one, std::string_view other) {
  const std::vector<std::string> ids = metadata::parse_ids(one), others = metadata::parse_ids(other);
  return std::ranges::any_of(ids, [&](const std::string& id) { return std::ranges::find(others, id) != others.end(); });
}

// Returns true unless the two nodes certainly belong to different operations.
bool may_share_operation(const DiffNode& a, const DiffNode& b) {
  const std::string &one = a.attribution.id, &other = b.attribution.id;
  if (one.empty() || other.empty() || one == other) return true;
  const auto is_certain = [](const DiffNode& each) {
    return each.attribution.confidence < origin::Confidence::inferred;
  };
  return !is_certain(a) || !is_certain(b) || share_operation(one, other);
}

bool may_be_same_node(const DiffNode& a, const DiffNode& b) {
  return same_operator(*a.node, *b.node) && may_share_operation(a, b);
}

class Pairing {
 public:
  Pairing(const DiffNodes& a, const DiffNodes& b, Evidence evidence)
      : a_(a), b_(b), uses_origins_(evidence == Evidence::all), of_a_(a.size(), none), of_b_(b.size(), none) {
    fused_.resize(a.size(), false);
    fuses_.resize(b.size(), false);
    for (std::size_t i = 0; i < a_.size(); ++i) {
      for (const auto name : a_[i].node->outputs) makers_a_.emplace(name, i);
    }
    for (std::size_t i = 0; i < b_.size(); ++i) {
      for (const auto name : b_[i].node->outputs) makers_b_.emplace(name, i);
      if (!b_[i].node->name.empty()) names_b_.emplace(b_[i].node->name, i);
    }
  }

  NodePairs result() {
    by_value();
    by_name(/*renamed_values=*/true);
    if (uses_origins_) by_operation();
    by_fusion();
    by_name(/*renamed_values=*/false);
    if (uses_origins_) by_module();
    if (uses_origins_) fuse_operations();
    if (uses_origins_) by_input_and_output();
    NodePairs pairs;
    for (std::size_t i = 0; i < b_.size(); ++i) {
      if (of_b_[i] != none) pairs.pairs.push_back({of_b_[i], i});
      if (free_b(i)) pairs.added.push_back(i);
    }
    for (std::size_t i = 0; i < a_.size(); ++i) {
      if (free_a(i)) pairs.removed.push_back(i);
    }
    pairs.fusions = std::move(fusions_);
    return pairs;
  }

 private:
  bool free_a(std::size_t i) const { return of_a_[i] == none && !fused_[i]; }
  bool free_b(std::size_t i) const { return of_b_[i] == none && !fuses_[i]; }

  void pair(std::size_t a, std::size_t b) {
    of_a_[a] = b;
    of_b_[b] = a;
  }

  using Makers = std::unordered_map<std::string_view, std::size_t>;
  static std::optional<std::size_t> maker(const Makers& makers, std::string_view value) {
    const auto found = makers.find(value);
    return value.empty() || found == makers.end() ? std::nullopt : std::optional(found->second);
  }

  void by_value() {
    for (std::size_t i = 0; i < b_.size(); ++i) {
      const auto made = maker(makers_a_, first_output(*b_[i].node));
      if (made && free_a(*made) && may_pair(a_[*made], b_[i]) && !is_reused_name(*made, i)) pair(*made, i);
    }
  }

  // Returns true if a new node took over the value's name while the value's old producer remains: a Cast after a Cast.
  bool is_reused_name(std::size_t a, std::size_t b) const {
    const auto namesake = names_b_.find(a_[a].node->name);
    return !uses_origins_ && namesake != names_b_.end() && b_[b].node->name != a_[a].node->name &&
           same_operator(*a_[a].node, *b_[namesake->second].node);
  }

  void by_fusion() {
    for (std::size_t i = 0; i < b_.size(); ++i) {
      if (of_b_[i] == none && (fuses_[i] || !makes_any(*b_[i].node, makers_a_))) continue;
      std::vector<std::size_t> new_nodes = new_nodes_before(i);
      std::vector<std::size_t> old_nodes =
          of_b_[i] == none ? replaced(new_nodes) : absorbed(*a_[of_b_[i]].node, new_nodes);
      if (old_nodes.empty()) continue;
      if (of_b_[i] != none) old_nodes.push_back(of_b_[i]);
      add_fusion({std::move(old_nodes), std::move(new_nodes)});
    }
  }

  // Returns true if `makers` has a producer for an output of the node.
  static bool makes_any(const OnnxNode& node, const Makers& makers) {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](std::string_view name) { return maker(makers, name).has_value(); });
  }

  // Records that the nodes `all.b` replaced `all.a`, module by module. One node for one is not a fusion: the weaker
  // rules may pair the two.
  void add_fusion(NodePairs::Fusion all) {
    std::sort(all.a.begin(), all.a.end());
    // A node that only changes a value's layout replaces nothing, even if the first file has its result.
    std::erase_if(all.b, [&](std::size_t at) {
      const OnnxNode& node = *b_[at].node;
      return is_reorder(node) || (node.op_type == "Transpose" && of_b_[at] == none && is_inserted(b_[at]));
    });
    if (!uses_origins_) return add_part(std::move(all));
    for (NodePairs::Fusion& part : split_by_modules(all, a_, b_)) {
      pair_within(part);
      if (part.a.size() + part.b.size() > 2) add_part(std::move(part));
    }
  }

  void add_part(NodePairs::Fusion part) {
    if (part.a.empty() || part.b.empty()) return;
    for (const std::size_t at : part.a) fused_[at] = true;
    for (const std::size_t at : part.b) fuses_[at] = true;
    fusions_.push_back(std::move(part));
  }

  // Pairs nodes within the part, and removes them from it, if both files have equally many nodes with their operator
  // and modules: a tool that changed the layout of values between the nodes replaced each node separately, perhaps in
  // another domain. Leaves the part unchanged if the remaining nodes of a would have no counterpart.
  void pair_within(NodePairs::Fusion& part) {
    std::vector<NodePairs::Pair> pairs;
    NodePairs::Fusion rest;
    for (const std::size_t at : part.a) {
      const std::size_t partner = of_a_[at] != none ? of_a_[at] : partner_in(part, at);
      partner == none ? rest.a.push_back(at) : pairs.push_back({at, partner});
    }
    for (const std::size_t at : part.b) {
      if (std::ranges::find(pairs, at, &NodePairs::Pair::b) == pairs.end()) rest.b.push_back(at);
    }
    const bool one_stayed = std::ranges::any_of(part.b, [&](std::size_t at) { return of_b_[at] != none; });
    if (!rest.a.empty() && (rest.b.empty() || one_stayed)) return;
    for (const NodePairs::Pair& each : pairs) pair(each.a, each.b);
    part = std::move(rest);
  }

  // Returns the node of b with the same rank among the part's nodes with this operator and these modules; none if the
  // files have different numbers of them.
  std::size_t partner_in(const NodePairs::Fusion& part, std::size_t at) const {
    const auto like = [&](const DiffNode& each) {
      return each.node->op_type == a_[at].node->op_type && each.attribution.modules == a_[at].attribution.modules;
    };
    std::vector<std::size_t> old_nodes, new_nodes;
    std::ranges::copy_if(part.a, std::back_inserter(old_nodes),
                         [&](std::size_t each) { return of_a_[each] == none && like(a_[each]); });
    std::ranges::copy_if(part.b, std::back_inserter(new_nodes),
                         [&](std::size_t each) { return of_b_[each] == none && like(b_[each]); });
    if (old_nodes.size() != new_nodes.size()) return none;
    return new_nodes[static_cast<std::size_t>(std::ranges::find(old_nodes, at) - old_nodes.begin())];
  }

  // Returns the node of b and its producers over values that a does not have: Reshape, Gemm, Reshape.
  std::vector<std::size_t> new_nodes_before(std::size_t last) const {
    std::set<std::size_t> found = {last};
    std::vector<std::size_t> todo = {last};
    while (!todo.empty()) {
      const OnnxNode& node = *b_[todo.back()].node;
      todo.pop_back();
      for (const auto value : node.inputs) {
        const auto made = maker(makers_b_, value);
        if (!made || maker(makers_a_, value) || !free_b(*made) || b_[*made].constant) continue;
        if (found.size() < largest_fusion && found.insert(*made).second) todo.push_back(*made);
      }
    }
    return {found.begin(), found.end()};
  }

  // Returns unpaired nodes of a on the paths back from `values` to values in `reads`. With `must_arrive`, returns
  // nothing if a path ends at a node that cannot be part of a fusion.
  std::vector<std::size_t> back_from(const std::vector<std::string_view>& values,
                                     const std::unordered_set<std::string_view>& reads, bool must_arrive) const {
    std::vector<std::string_view> todo(values);
    std::set<std::size_t> found;
    while (!todo.empty()) {
      const std::string_view value = todo.back();
      todo.pop_back();
      const auto made = maker(makers_a_, value);
      if (reads.contains(value) || !made || a_[*made].constant) continue;
      if (!free_a(*made) || does_nothing(*a_[*made].node) || found.size() >= largest_fusion) {
        if (must_arrive) return {};
        continue;
      }
      if (!found.insert(*made).second) continue;
      const auto& inputs = a_[*made].node->inputs;
      todo.insert(todo.end(), inputs.begin(), inputs.end());
    }
    return {found.begin(), found.end()};
  }

  // Returns the nodes of a that the nodes `new_nodes` of b replaced: the producers of values that both files have.
  std::vector<std::size_t> replaced(const std::vector<std::size_t>& new_nodes) const {
    std::unordered_set<std::string_view> reads;
    std::vector<std::string_view> survivors;
    for (const std::size_t at : new_nodes) {
      reads.insert(b_[at].node->inputs.begin(), b_[at].node->inputs.end());
      for (const auto name : b_[at].node->outputs) {
        const auto made = maker(makers_a_, name);
        if (made && free_a(*made) && !a_[*made].constant) survivors.push_back(name);
      }
    }
    return back_from(survivors, reads, /*must_arrive=*/false);
  }

  // Returns the nodes of a that a paired node, possibly with new producers, absorbed on the paths to its inputs, as a
  // Conv absorbs a Pad.
  std::vector<std::size_t> absorbed(const OnnxNode& before, const std::vector<std::size_t>& new_nodes) const {
    std::unordered_set<std::string_view> reads;
    for (const std::size_t at : new_nodes) reads.insert(b_[at].node->inputs.begin(), b_[at].node->inputs.end());
    return back_from(before.inputs, reads, /*must_arrive=*/true);
  }

  // `renamed_values`: pairs only nodes without outputs that the other file also has.
  void by_name(bool renamed_values) {
    // If only one file was annotated, its nodes still have the other file's names as their original names.
    for (const metadata::NameAge a : {metadata::NameAge::present, metadata::NameAge::original}) {
      for (const metadata::NameAge b : {metadata::NameAge::present, metadata::NameAge::original}) {
        by_name(renamed_values, a, b);
      }
    }
  }

  void by_name(bool renamed_values, metadata::NameAge age_a, metadata::NameAge age_b) {
    std::unordered_map<std::string_view, std::size_t> named;  // `none` if several nodes have the name
    for (std::size_t i = 0; i < a_.size(); ++i) {
      if (!free_a(i)) continue;
      const std::string_view name = metadata::name_of(*a_[i].node, age_a);
      if (name.empty()) continue;
      const auto [entry, is_new] = named.try_emplace(name, i);
      if (!is_new) entry->second = none;
    }
    for (std::size_t i = 0; i < b_.size(); ++i) {
      if (!free_b(i)) continue;
      const auto found = named.find(metadata::name_of(*b_[i].node, age_b));
      if (found == named.end() || found->second == none) continue;
      const std::size_t at = found->second;
      if (!free_a(at) || !may_pair(a_[at], b_[i])) continue;
      if (renamed_values && (makes_any(*a_[at].node, makers_b_) || makes_any(*b_[i].node, makers_a_))) continue;
      pair(at, i);
    }
  }

  void by_operation() {
    using Key = std::tuple<std::string_view, std::string_view, std::string_view>;
    pair_alike([](const DiffNode& each) {
      const std::string& id = each.attribution.id;
      return id.empty() ? std::nullopt : std::optional(Key{id, each.node->op_type, each.node->domain});
    });
  }

  void by_module() {
    using Key = std::tuple<std::vector<std::string>, std::string, std::string_view, std::string_view>;
    pair_alike([](const DiffNode& each) {
      return std::optional(Key{each.attribution.modules, each.attribution.call, each.node->op_type, each.node->domain});
    });
  }

  // Pairs the remaining nodes with equal keys, in order, if both files have equally many of them.
  template <class KeyOf>
  void pair_alike(const KeyOf& key_of) {
    using Key = typename std::invoke_result_t<KeyOf, const DiffNode&>::value_type;
    std::map<Key, std::pair<std::vector<std::size_t>, std::vector<std::size_t>>> groups;
    for (std::size_t i = 0; i < a_.size(); ++i) {
      if (!free_a(i)) continue;
      if (auto key = key_of(a_[i])) groups[*std::move(key)].first.push_back(i);
    }
    for (std::size_t i = 0; i < b_.size(); ++i) {
      if (!free_b(i)) continue;
      if (auto key = key_of(b_[i])) groups[*std::move(key)].second.push_back(i);
    }
    for (const auto& [_, group] : groups) {
      if (group.first.size() != group.second.size()) continue;
      for (std::size_t i = 0; i < group.first.size(); ++i) {
        if (may_be_same_node(a_[group.first[i]], b_[group.second[i]])) pair(group.first[i], group.second[i]);
      }
    }
  }

  // Fuses the remaining nodes of both files that implement the same operations. An operation with several nodes unites
  // all operations of these nodes.
  void fuse_operations() {
    OperationGroups groups;
    const auto add = [&](const DiffNodes& nodes, std::size_t i, std::vector<std::size_t> NodePairs::Fusion::* side) {
      groups.add(metadata::parse_ids(nodes[i].attribution.id), i, side);
    };
    for (std::size_t i = 0; i < a_.size(); ++i) {
      if (free_a(i)) add(a_, i, &NodePairs::Fusion::a);
    }
    for (std::size_t i = 0; i < b_.size(); ++i) {
      if (free_b(i)) add(b_, i, &NodePairs::Fusion::b);
    }
    for (NodePairs::Fusion& fusion : groups.fusions()) add_part(std::move(fusion));
  }

  // Pairs nodes with different operators that have an input and their output in common. Exporters number values, so the
  // name of the output alone is not enough.
  void by_input_and_output() {
    for (std::size_t i = 0; i < b_.size(); ++i) {
      if (!free_b(i) || b_[i].constant || is_inserted(b_[i])) continue;
      const auto made = maker(makers_a_, first_output(*b_[i].node));
      if (!made || !free_a(*made) || a_[*made].constant || !may_share_operation(a_[*made], b_[i])) continue;
      const auto& reads = a_[*made].node->inputs;
      const bool same_input = std::ranges::any_of(b_[i].node->inputs, [&](std::string_view value) {
        return !value.empty() && std::ranges::find(reads, value) != reads.end();
      });
      if (same_input) add_part({{*made}, {i}});
    }
  }

  bool may_pair(const DiffNode& a, const DiffNode& b) const {
    return same_operator(*a.node, *b.node) && (!uses_origins_ || may_be_same_node(a, b));
  }

  const DiffNodes& a_;
  const DiffNodes& b_;
  bool uses_origins_;
  std::vector<std::size_t> of_a_, of_b_;  // by node, its partner or none
  std::vector<bool> fused_, fuses_;       // by node of a, and of b: is part of a fusion
  std::vector<NodePairs::Fusion> fusions_;
  Makers makers_a_, makers_b_, names_b_;
};

}  // namespace

bool is_inserted(const DiffNode& each) { return each.attribution.rule == "inserted" || is_reorder(*each.node); }

NodePairs pair_nodes(const DiffNodes& a, const DiffNodes& b, Evidence evidence) {
  return Pairing(a, b, evidence).result();
}

}  // namespace whence::view
