#include "annotator/validation/standing.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "annotator/operators/onnx_operators.h"
#include "schema/disjoint_sets.h"

namespace whence::validation {

using onnx_file::OnnxNode;
using view::DiffNode;
using view::DiffNodes;
using view::NodePairs;

namespace {

using Nodes = std::vector<std::size_t>;
constexpr std::size_t most_neighbours = 1000;  // an inserted node has no more, so that the cost stays bounded
constexpr std::size_t most_sure = 100;         // nodes of a group; of a larger one it is not known what replaced what
constexpr std::size_t no_node = static_cast<std::size_t>(-1);

// Operators that compute nothing of the model: tools put them in, and no operation is split into them.
bool only_adapts(const OnnxNode& node) {
  return node.op_type == "Cast" || node.op_type == "CastLike" ||
         operators::has(node.op_type, operators::does_nothing) || operators::has(node.op_type, operators::reorders) ||
         operators::has(node.op_type, operators::quantizes);
}

bool says_inserted(const DiffNode& each) { return each.attribution.rule == "inserted"; }

std::size_t hash_of(std::string_view text) { return std::hash<std::string_view>()(text); }

std::size_t mix(std::size_t seed, std::size_t more) {
  return (seed ^ (more + 0x9e3779b9 + (seed << 6) + (seed >> 2))) * 31;
}

// Operator and attributes, in whatever order these are.
std::size_t kind_of(const OnnxNode& node) {
  std::size_t attributes = 0;
  for (const onnx_file::OnnxAttribute& attribute : node.attributes) attributes += hash_of(attribute.message);
  return mix(mix(mix(hash_of(node.op_type), hash_of(node.domain)), hash_of(node.overload)), attributes);
}

// The nodes of one file and who makes and reads each value.
struct Side {
  explicit Side(const DiffNodes& all) : nodes(all) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const std::string_view value : nodes[i].node->outputs) maker.emplace(value, i);
      for (const std::string_view value : nodes[i].node->inputs) readers[value].push_back(i);
    }
    maker.erase("");
    readers.erase("");
  }

  // visit(node): each node that makes an input of `node`.
  template <class Visit>
  void each_producer(std::size_t node, const Visit& visit) const {
    for (const std::string_view value : nodes[node].node->inputs) {
      if (const auto found = maker.find(value); found != maker.end()) visit(found->second);
    }
  }

  // visit(node): each node that makes an input of `node` or reads an output.
  template <class Visit>
  void each_neighbour(std::size_t node, const Visit& visit) const {
    each_producer(node, visit);
    for (const std::string_view value : nodes[node].node->outputs) {
      if (const auto found = readers.find(value); found != readers.end()) std::ranges::for_each(found->second, visit);
    }
  }

  const DiffNodes& nodes;
  std::unordered_map<std::string_view, std::size_t> maker;
  std::unordered_map<std::string_view, Nodes> readers;
};

class Concluding {
 public:
  Concluding(const DiffNodes& before, const DiffNodes& after, const NodePairs& pairs)
      : a_(before),
        b_(after),
        pairs_(pairs),
        of_a_(before.size(), no_node),
        of_b_(after.size(), no_node),
        grouped_(after.size(), false),
        first_twin_(before.size()),
        same_(after.size()),
        regions_(before.size()),
        links_(after.size()) {
    for (const NodePairs::Pair& pair : pairs.pairs) {
      of_a_[pair.a] = pair.b;
      of_b_[pair.b] = pair.a;
    }
    standings_.of.resize(after.size());
  }

  Standings result() {
    find_same_computations();
    link_regions();
    find_duplicates();
    for (std::size_t i = 0; i < b_.nodes.size(); ++i) {
      if (of_b_[i] != no_node) keep(i);
    }
    for (const NodePairs::Fusion& group : pairs_.fusions) replace(group);
    for (std::size_t i = 0; i < b_.nodes.size(); ++i) {
      if (of_b_[i] == no_node && !grouped_[i]) add(i);
    }
    deduplicate();
    find_neighbours();
    return std::move(standings_);
  }

 private:
  bool is_gone(std::size_t a) const { return of_a_[a] == no_node; }
  bool has_region(std::size_t a) const { return is_gone(a) || a_.nodes[a].constant; }

  // Nodes of one operator and attributes that read the same values compute the same. A value of both files is one
  // value.
  void find_same_computations() {
    std::unordered_map<std::size_t, Nodes> by_key;
    std::unordered_map<std::string_view, std::size_t> of_value_a, of_value_b;
    const auto value_in = [](const auto& known, std::string_view value) {
      const auto found = known.find(value);
      return found == known.end() ? hash_of(value) : found->second;
    };
    const auto key_in = [&](const auto& known, const OnnxNode& node) {
      std::size_t key = kind_of(node);
      for (const std::string_view value : node.inputs) key = mix(key, value_in(known, value));
      return key;
    };
    const auto is_comparable = [](const OnnxNode& node) {
      return node.subgraphs.empty() && !operators::has(node.op_type, operators::random);
    };
    for (std::size_t i = 0; i < a_.nodes.size(); ++i) {
      const OnnxNode& node = *a_.nodes[i].node;
      first_twin_[i] = i;
      if (!is_comparable(node)) continue;
      Nodes& alike = by_key[key_in(of_value_a, node)];
      if (!alike.empty()) {
        const OnnxNode& first = *a_.nodes[alike.front()].node;
        for (std::size_t at = 0; at < std::min(node.outputs.size(), first.outputs.size()); ++at)
          of_value_a.emplace(node.outputs[at], value_in(of_value_a, first.outputs[at]));
      }
      alike.push_back(i);
      first_twin_[i] = alike.front();
    }
    for (std::size_t i = 0; i < a_.nodes.size(); ++i) twins_[first_twin_[i]].push_back(i);
    for (std::size_t i = 0; i < b_.nodes.size(); ++i) {
      const OnnxNode& node = *b_.nodes[i].node;
      const auto found = is_comparable(node) ? by_key.find(key_in(of_value_b, node)) : by_key.end();
      if (found == by_key.end()) continue;
      same_[i] = found->second;
      const OnnxNode& old = *a_.nodes[found->second.front()].node;
      for (std::size_t at = 0; at < std::min(node.outputs.size(), old.outputs.size()); ++at)
        of_value_b.emplace(node.outputs[at], value_in(of_value_a, old.outputs[at]));
    }
  }

  void link_regions() {
    for (std::size_t i = 0; i < a_.nodes.size(); ++i) {
      if (!has_region(i)) continue;
      a_.each_producer(i, [&](std::size_t producer) {
        if (has_region(producer)) regions_.unite(i, producer);
      });
      if (has_region(first_twin_[i])) regions_.unite(i, first_twin_[i]);
    }
    for (std::size_t i = 0; i < b_.nodes.size(); ++i) {
      if (of_b_[i] != no_node) continue;
      b_.each_producer(i, [&](std::size_t producer) {
        if (of_b_[producer] == no_node) links_.unite(i, producer);
      });
    }
    std::unordered_map<std::size_t, std::size_t> first_of;  // by new nodes that are linked, a node that they replaced
    for (const NodePairs::Fusion& group : pairs_.fusions) {
      for (const std::size_t at : group.b) {
        if (of_b_[at] != no_node) continue;
        Nodes& kept = kept_near_[links_.root(at)];
        for (const std::size_t old : group.a) {
          if (!is_gone(old)) kept.push_back(old);
          if (is_gone(old)) regions_.unite(old, first_of.try_emplace(links_.root(at), old).first->second);
        }
      }
      for (const std::size_t old : group.a) {
        const auto gone = std::ranges::find_if(group.a, [&](std::size_t each) { return is_gone(each); });
        if (is_gone(old)) regions_.unite(old, *gone);
      }
    }
    std::unordered_map<std::size_t, std::size_t> numbers;
    region_of_.resize(a_.nodes.size(), no_node);
    for (std::size_t i = 0; i < a_.nodes.size(); ++i) {
      if (!has_region(i)) continue;
      const auto [entry, added] = numbers.try_emplace(regions_.root(i), standings_.regions.size());
      if (added) standings_.regions.emplace_back();
      standings_.regions[region_of_[i] = entry->second].push_back(i);
    }
  }

  void add_region(Standing& standing, std::size_t a) const {
    if (region_of_[a] == no_node) return;
    if (std::ranges::find(standing.regions, region_of_[a]) == standing.regions.end())
      standing.regions.push_back(region_of_[a]);
  }

  // Equal nodes that are gone may go on in this one.
  void add_twins(Standing& standing, std::size_t a) const {
    for (const std::size_t twin : twins_of(a)) {
      if (is_gone(twin)) standing.may.push_back(twin);
    }
  }

  void keep(std::size_t b) {
    Standing& standing = standings_.of[b];
    const std::size_t old = of_b_[b];
    standing.role = Role::kept;
    standing.must = {old};
    add_twins(standing, old);
    // A neighbour whose value another node makes went on in that one.
    const auto is_taken_in = [&](std::size_t neighbour) {
      return std::ranges::none_of(a_.nodes[neighbour].node->outputs, [&](auto value) {
        const auto made = b_.maker.find(value);
        return made != b_.maker.end() && made->second != b;
      });
    };
    a_.each_neighbour(old, [&](std::size_t neighbour) {
      if (is_taken_in(neighbour)) add_region(standing, neighbour);
    });
  }

  // The nodes of a group before that have to be named: all that compute something; if none does, all, unless one
  // stayed.
  Nodes core_of(const NodePairs::Fusion& group) const {
    Nodes core;
    std::ranges::copy_if(group.a, std::back_inserter(core), [&](std::size_t old) {
      return !a_.nodes[old].constant && !only_moves(*a_.nodes[old].node) && !goes_on_in_.contains(old);
    });
    const bool one_stayed = std::ranges::any_of(group.b, [&](std::size_t at) { return of_b_[at] != no_node; });
    return core.empty() && !one_stayed ? group.a : core;
  }

  // True if each of `core` is in the group after the tool as it was, so that what else is there does none of its work.
  bool all_stayed(const Nodes& core, const NodePairs::Fusion& group) const {
    std::map<std::size_t, std::ptrdiff_t> left;
    for (const std::size_t at : group.b) ++left[kind_of(*b_.nodes[at].node)];
    return std::ranges::all_of(core, [&](std::size_t old) { return left[kind_of(*a_.nodes[old].node)]-- > 0; });
  }

  Nodes of_operator(const Side& side, const Nodes& nodes, const OnnxNode& like) const {
    Nodes alike;
    std::ranges::copy_if(nodes, std::back_inserter(alike), [&](std::size_t at) {
      return side.nodes[at].node->op_type == like.op_type && side.nodes[at].node->domain == like.domain;
    });
    return alike;
  }

  void replace(const NodePairs::Fusion& group) {
    for (const std::size_t at : group.b) grouped_[at] = true;
    if (group.a.size() > most_sure || group.b.size() > most_sure) return;
    const Nodes core = core_of(group);
    const bool stayed = all_stayed(core, group);
    const auto is_inserted = [&](std::size_t at) {
      const DiffNode& each = b_.nodes[at];
      if (of_b_[at] != no_node || says_inserted(each)) return of_b_[at] == no_node;
      return stayed && only_adapts(*each.node) && same_[at].empty() && of_operator(a_, group.a, *each.node).empty();
    };
    // In a group of nodes that all say to be inserted, none is left that does the work.
    const bool work_is_done = !std::ranges::all_of(group.b, is_inserted);
    Nodes workers;
    for (const std::size_t at : group.b) {
      const bool may_serve_none = only_moves(*b_.nodes[at].node) && !b_.nodes[at].attribution.attributed();
      if (!(work_is_done && is_inserted(at)) && !may_serve_none) workers.push_back(at);
    }
    if (workers.size() != 1) standings_.shared.push_back({core, group.b});
    for (const std::size_t at : group.b) {
      Standing& standing = standings_.of[at];
      for (const std::size_t old : group.a) {
        standing.may.push_back(old);
        add_region(standing, old);
      }
      if (const auto near = kept_near_.find(links_.root(at)); near != kept_near_.end())
        standing.may.insert(standing.may.end(), near->second.begin(), near->second.end());
      if (of_b_[at] != no_node) {
        if (workers.size() == 1) standing.must = core;
        b_.each_producer(at, [&](std::size_t producer) { standing.neighbours.push_back(producer); });
        if (std::ranges::find(standing.must, of_b_[at]) == standing.must.end()) standing.must.push_back(of_b_[at]);
        continue;
      }
      if (work_is_done && is_inserted(at)) {
        standing.role = Role::inserted;
        continue;
      }
      standing.role = Role::replaces;
      standing.may_serve_none = only_moves(*b_.nodes[at].node) && group.b.size() > 1;
      share_out(at, group, core, workers, standing);
    }
  }

  // One of several new nodes stands for all that the group did, unless the old graph had nodes like it.
  void share_out(std::size_t at, const NodePairs::Fusion& group, const Nodes& core, const Nodes& workers,
                 Standing& standing) const {
    const OnnxNode& node = *b_.nodes[at].node;
    if (workers.size() > 1) {
      if (!same_[at].empty()) {
        (same_[at].size() == 1 ? standing.must : standing.any_of) = same_[at];
        return;
      }
      const Nodes olds = of_operator(a_, group.a, node);
      if (!olds.empty() && olds.size() == of_operator(b_, group.b, node).size()) {
        standing.any_of = olds;
        return;
      }
    }
    std::ranges::copy_if(core, std::back_inserter(standing.must),
                         [&](std::size_t old) { return is_gone(old) || workers.size() == 1; });
  }

  void add(std::size_t b) {
    Standing& standing = standings_.of[b];
    const DiffNode& each = b_.nodes[b];
    const auto makes_old_value =
        std::ranges::any_of(each.node->outputs, [&](auto value) { return a_.maker.contains(value); });
    if (each.constant || (makes_old_value && !says_inserted(each))) return;
    if (says_inserted(each)) {
      standing.role = Role::inserted;
    } else if (!same_[b].empty()) {
      standing.role = Role::copy;
      (same_[b].size() == 1 ? standing.must : standing.any_of) = same_[b];
      standing.may_serve_none = only_moves(*each.node);
    } else if (only_adapts(*each.node) && speaks_for_nodes_that_stayed(each)) {
      standing.role = Role::inserted;
    }
  }

  // True if all nodes before that say one of the node's modules are still there as they were, and none has its
  // operator: then it does no work of theirs.
  bool speaks_for_nodes_that_stayed(const DiffNode& each) {
    if (!touched_) {
      touched_.emplace();
      for (std::size_t i = 0; i < a_.nodes.size(); ++i) {
        const DiffNode& old = a_.nodes[i];
        if (!is_gone(i) && kind_of(*old.node) == kind_of(*b_.nodes[of_a_[i]].node) && !only_adapts(*old.node)) continue;
        touched_->insert(old.attribution.modules.begin(), old.attribution.modules.end());
      }
    }
    return std::ranges::none_of(each.attribution.modules,
                                [&](const std::string& name) { return touched_->contains(name); });
  }

  // A node that is gone, and whose readers now read what an equal one makes, goes on in that one.
  void find_duplicates() {
    for (std::size_t i = 0; i < a_.nodes.size(); ++i) {
      if (!is_gone(i) || a_.nodes[i].constant) continue;
      for (const std::size_t stayed : twins_of(i)) {
        if (!is_gone(stayed) && read_in_its_place(i, of_a_[stayed])) goes_on_in_.emplace(i, of_a_[stayed]);
      }
    }
  }

  void deduplicate() {
    for (const auto& [gone, stayed] : goes_on_in_) {
      standings_.of[stayed].must.push_back(gone);
      add_region(standings_.of[stayed], gone);
    }
  }

  // Those before and behind an inserted node, over other inserted ones.
  void find_neighbours() {
    for (std::size_t i = 0; i < b_.nodes.size(); ++i) {
      if (standings_.of[i].role != Role::inserted) continue;
      Nodes todo = {i};
      std::unordered_set<std::size_t> seen = {i};
      const auto visit = [&](std::size_t next) {
        if (seen.size() >= most_neighbours || !seen.insert(next).second) return;
        (standings_.of[next].role == Role::inserted ? todo : standings_.of[i].neighbours).push_back(next);
      };
      while (!todo.empty()) {
        const std::size_t at = todo.back();
        todo.pop_back();
        b_.each_neighbour(at, visit);
      }
    }
  }

  // All nodes before that compute the same, the node itself among them.
  const Nodes& twins_of(std::size_t a) const { return twins_.at(first_twin_[a]); }

  bool read_in_its_place(std::size_t a, std::size_t b) const {
    const auto& made = b_.nodes[b].node->outputs;
    for (const std::string_view value : a_.nodes[a].node->outputs) {
      const auto readers = a_.readers.find(value);
      if (readers == a_.readers.end()) continue;
      for (const std::size_t reader : readers->second) {
        if (is_gone(reader)) continue;
        const auto &was = a_.nodes[reader].node->inputs, &is = b_.nodes[of_a_[reader]].node->inputs;
        for (std::size_t at = 0; at < std::min(was.size(), is.size()); ++at) {
          if (was[at] == value && std::ranges::find(made, is[at]) != made.end()) return true;
        }
      }
    }
    return false;
  }

  const Side a_, b_;
  const NodePairs& pairs_;
  Nodes of_a_, of_b_;  // by node, its partner in the other file
  std::vector<bool> grouped_;
  Nodes first_twin_;              // by node before, the first one that computes the same, itself where there is none
  std::vector<Nodes> same_;       // by node after, those before that compute the same
  DisjointSets regions_, links_;  // nodes before that are gone; new nodes after
  Nodes region_of_;
  std::unordered_map<std::size_t, Nodes> kept_near_;  // by linked new nodes, kept ones of the same groups
  std::map<std::size_t, std::size_t> goes_on_in_;  // nodes before, and the equal one after that their readers read now
  std::unordered_map<std::size_t, Nodes> twins_;   // by the first of them
  std::optional<std::unordered_set<std::string>> touched_;  // modules of which a node is gone or changed
  Standings standings_;
};

}  // namespace

bool only_moves(const OnnxNode& node) { return operators::has(node.op_type, operators::transparent); }

Standings standings_of(const DiffNodes& before, const DiffNodes& after, const NodePairs& pairs) {
  return Concluding(before, after, pairs).result();
}

}  // namespace whence::validation
