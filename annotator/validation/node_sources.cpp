#include "annotator/validation/node_sources.h"

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
constexpr std::size_t max_neighbours = 1000;  // of one inserted node, to bound the cost
constexpr std::size_t max_group_size = 100;   // nodes of a group; in a larger group the replacements are unknown
constexpr std::size_t no_node = static_cast<std::size_t>(-1);

// True for operators that do no work of the model: tools insert them, and no operation is split into them.
bool only_adapts(const OnnxNode& node) {
  return node.op_type == "Cast" || node.op_type == "CastLike" ||
         operators::has(node.op_type, operators::does_nothing) || operators::has(node.op_type, operators::reorders) ||
         operators::has(node.op_type, operators::quantizes);
}

bool states_inserted(const DiffNode& each) { return each.attribution.rule == "inserted"; }

std::size_t hash_of(std::string_view text) { return std::hash<std::string_view>()(text); }

std::size_t mix(std::size_t seed, std::size_t more) {
  return (seed ^ (more + 0x9e3779b9 + (seed << 6) + (seed >> 2))) * 31;
}

// Returns a hash of the operator and its attributes, independent of the attributes' order.
std::size_t kind_of(const OnnxNode& node) {
  std::size_t attributes = 0;
  for (const onnx_file::OnnxAttribute& attribute : node.attributes) attributes += hash_of(attribute.message);
  return mix(mix(mix(hash_of(node.op_type), hash_of(node.domain)), hash_of(node.overload)), attributes);
}

// The nodes of one file, with the producer and the consumers of each value.
struct Side {
  explicit Side(const DiffNodes& all) : nodes(all) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const std::string_view value : nodes[i].node->outputs) producers.emplace(value, i);
      for (const std::string_view value : nodes[i].node->inputs) readers[value].push_back(i);
    }
    producers.erase("");
    readers.erase("");
  }

  // Calls visit(producer) for each input of `node`.
  template <class Visit>
  void each_producer(std::size_t node, const Visit& visit) const {
    for (const std::string_view value : nodes[node].node->inputs) {
      if (const auto found = producers.find(value); found != producers.end()) visit(found->second);
    }
  }

  // Calls visit(neighbour) for each producer of an input and each consumer of an output of `node`.
  template <class Visit>
  void each_neighbour(std::size_t node, const Visit& visit) const {
    each_producer(node, visit);
    for (const std::string_view value : nodes[node].node->outputs) {
      if (const auto found = readers.find(value); found != readers.end()) std::ranges::for_each(found->second, visit);
    }
  }

  const DiffNodes& nodes;
  std::unordered_map<std::string_view, std::size_t> producers;
  std::unordered_map<std::string_view, Nodes> readers;
};

class SourceFinder {
 public:
  SourceFinder(const DiffNodes& before, const DiffNodes& after, const NodePairs& pairs)
      : a_(before),
        b_(after),
        pairs_(pairs),
        partner_of_a_(before.size(), no_node),
        partner_of_b_(after.size(), no_node),
        grouped_(after.size(), false),
        first_equal_(before.size()),
        same_(after.size()),
        regions_(before.size()),
        new_groups_(after.size()) {
    for (const NodePairs::Pair& pair : pairs.pairs) {
      partner_of_a_[pair.a] = pair.b;
      partner_of_b_[pair.b] = pair.a;
    }
    sources_.by_node.resize(after.size());
  }

  EditSources result() {
    find_same_computations();
    link_regions();
    find_duplicates();
    for (std::size_t i = 0; i < b_.nodes.size(); ++i) {
      if (partner_of_b_[i] != no_node) keep(i);
    }
    for (const NodePairs::Fusion& group : pairs_.fusions) replace(group);
    for (std::size_t i = 0; i < b_.nodes.size(); ++i) {
      if (partner_of_b_[i] == no_node && !grouped_[i]) add(i);
    }
    deduplicate();
    find_neighbours();
    return std::move(sources_);
  }

 private:
  bool is_removed(std::size_t a) const { return partner_of_a_[a] == no_node; }
  bool has_region(std::size_t a) const { return is_removed(a) || a_.nodes[a].constant; }

  // Finds nodes with equal results: equal operator, attributes and input values. A value name in both files denotes the
  // same value.
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
      first_equal_[i] = i;
      if (!is_comparable(node)) continue;
      Nodes& alike = by_key[key_in(of_value_a, node)];
      if (!alike.empty()) {
        const OnnxNode& first = *a_.nodes[alike.front()].node;
        for (std::size_t at = 0; at < std::min(node.outputs.size(), first.outputs.size()); ++at)
          of_value_a.emplace(node.outputs[at], value_in(of_value_a, first.outputs[at]));
      }
      alike.push_back(i);
      first_equal_[i] = alike.front();
    }
    for (std::size_t i = 0; i < a_.nodes.size(); ++i) equal_nodes_[first_equal_[i]].push_back(i);
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
      if (has_region(first_equal_[i])) regions_.unite(i, first_equal_[i]);
    }
    for (std::size_t i = 0; i < b_.nodes.size(); ++i) {
      if (partner_of_b_[i] != no_node) continue;
      b_.each_producer(i, [&](std::size_t producer) {
        if (partner_of_b_[producer] == no_node) new_groups_.unite(i, producer);
      });
    }
    std::unordered_map<std::size_t, std::size_t> first_replaced;  // by group of new nodes
    for (const NodePairs::Fusion& group : pairs_.fusions) {
      for (const std::size_t at : group.b) {
        if (partner_of_b_[at] != no_node) continue;
        Nodes& kept = kept_partners_[new_groups_.root(at)];
        for (const std::size_t old : group.a) {
          if (!is_removed(old)) kept.push_back(old);
          if (is_removed(old)) regions_.unite(old, first_replaced.try_emplace(new_groups_.root(at), old).first->second);
        }
      }
      for (const std::size_t old : group.a) {
        const auto first = std::ranges::find_if(group.a, [&](std::size_t each) { return is_removed(each); });
        if (is_removed(old)) regions_.unite(old, *first);
      }
    }
    std::unordered_map<std::size_t, std::size_t> numbers;
    region_of_.resize(a_.nodes.size(), no_node);
    for (std::size_t i = 0; i < a_.nodes.size(); ++i) {
      if (!has_region(i)) continue;
      const auto [entry, added] = numbers.try_emplace(regions_.root(i), sources_.regions.size());
      if (added) sources_.regions.emplace_back();
      sources_.regions[region_of_[i] = entry->second].push_back(i);
    }
  }

  void add_region(NodeSources& node_sources, std::size_t a) const {
    if (region_of_[a] == no_node) return;
    if (std::ranges::find(node_sources.regions, region_of_[a]) == node_sources.regions.end())
      node_sources.regions.push_back(region_of_[a]);
  }

  // Lets the node name removed nodes with the same result: it may replace them.
  void add_equal_nodes(NodeSources& node_sources, std::size_t a) const {
    for (const std::size_t equal_node : equal_nodes_of(a)) {
      if (is_removed(equal_node)) node_sources.optional.push_back(equal_node);
    }
  }

  void keep(std::size_t b) {
    NodeSources& node_sources = sources_.by_node[b];
    const std::size_t old = partner_of_b_[b];
    node_sources.role = Role::kept;
    node_sources.required = {old};
    add_equal_nodes(node_sources, old);
    // A neighbour was not absorbed if another node now produces its value.
    const auto is_absorbed = [&](std::size_t neighbour) {
      return std::ranges::none_of(a_.nodes[neighbour].node->outputs, [&](auto value) {
        const auto producer = b_.producers.find(value);
        return producer != b_.producers.end() && producer->second != b;
      });
    };
    a_.each_neighbour(old, [&](std::size_t neighbour) {
      if (is_absorbed(neighbour)) add_region(node_sources, neighbour);
    });
  }

  // Returns the replaced nodes that must be named: all that compute something. If none does, returns all, or none if a
  // node of the group stayed.
  Nodes core_of(const NodePairs::Fusion& group) const {
    Nodes core;
    std::ranges::copy_if(group.a, std::back_inserter(core), [&](std::size_t old) {
      return !a_.nodes[old].constant && !only_moves(*a_.nodes[old].node) && !deduplicated_into_.contains(old);
    });
    const bool one_is_kept = std::ranges::any_of(group.b, [&](std::size_t at) { return partner_of_b_[at] != no_node; });
    return core.empty() && !one_is_kept ? group.a : core;
  }

  // Returns true if each node of `core` is still in the group, so that the other nodes there do none of its work.
  bool all_are_kept(const Nodes& core, const NodePairs::Fusion& group) const {
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
    if (group.a.size() > max_group_size || group.b.size() > max_group_size) return;
    const Nodes core = core_of(group);
    const bool core_is_kept = all_are_kept(core, group);
    const auto is_inserted = [&](std::size_t at) {
      const DiffNode& each = b_.nodes[at];
      if (partner_of_b_[at] != no_node || states_inserted(each)) return partner_of_b_[at] == no_node;
      return core_is_kept && only_adapts(*each.node) && same_[at].empty() &&
             of_operator(a_, group.a, *each.node).empty();
    };
    // If all nodes of the group seem to be inserted, they must do the work themselves.
    const bool work_is_done = !std::ranges::all_of(group.b, is_inserted);
    Nodes workers;
    for (const std::size_t at : group.b) {
      const bool may_represent_none = only_moves(*b_.nodes[at].node) && !b_.nodes[at].attribution.attributed();
      if (!(work_is_done && is_inserted(at)) && !may_represent_none) workers.push_back(at);
    }
    if (workers.size() != 1) sources_.shared.push_back({core, group.b});
    for (const std::size_t at : group.b) {
      NodeSources& node_sources = sources_.by_node[at];
      for (const std::size_t old : group.a) {
        node_sources.optional.push_back(old);
        add_region(node_sources, old);
      }
      if (const auto near = kept_partners_.find(new_groups_.root(at)); near != kept_partners_.end())
        node_sources.optional.insert(node_sources.optional.end(), near->second.begin(), near->second.end());
      if (partner_of_b_[at] != no_node) {
        if (workers.size() == 1) node_sources.required = core;
        b_.each_producer(at, [&](std::size_t producer) { node_sources.neighbours.push_back(producer); });
        if (std::ranges::find(node_sources.required, partner_of_b_[at]) == node_sources.required.end())
          node_sources.required.push_back(partner_of_b_[at]);
        continue;
      }
      if (work_is_done && is_inserted(at)) {
        node_sources.role = Role::inserted;
        continue;
      }
      node_sources.role = Role::replaces;
      node_sources.may_represent_none = only_moves(*b_.nodes[at].node) && group.b.size() > 1;
      assign_sources(at, group, core, workers, node_sources);
    }
  }

  // Each of several new nodes represents the whole group, unless the old graph has nodes with its operator.
  void assign_sources(std::size_t at, const NodePairs::Fusion& group, const Nodes& core, const Nodes& workers,
                      NodeSources& node_sources) const {
    const OnnxNode& node = *b_.nodes[at].node;
    if (workers.size() > 1) {
      if (!same_[at].empty()) {
        (same_[at].size() == 1 ? node_sources.required : node_sources.alternatives) = same_[at];
        return;
      }
      const Nodes old_nodes = of_operator(a_, group.a, node);
      if (!old_nodes.empty() && old_nodes.size() == of_operator(b_, group.b, node).size()) {
        node_sources.alternatives = old_nodes;
        return;
      }
    }
    std::ranges::copy_if(core, std::back_inserter(node_sources.required),
                         [&](std::size_t old) { return is_removed(old) || workers.size() == 1; });
  }

  void add(std::size_t b) {
    NodeSources& node_sources = sources_.by_node[b];
    const DiffNode& each = b_.nodes[b];
    const auto makes_old_value =
        std::ranges::any_of(each.node->outputs, [&](auto value) { return a_.producers.contains(value); });
    if (each.constant || (makes_old_value && !states_inserted(each))) return;
    if (states_inserted(each)) {
      node_sources.role = Role::inserted;
    } else if (!same_[b].empty()) {
      node_sources.role = Role::copy;
      (same_[b].size() == 1 ? node_sources.required : node_sources.alternatives) = same_[b];
      node_sources.may_represent_none = only_moves(*each.node);
    } else if (only_adapts(*each.node) && modules_are_unchanged(each)) {
      node_sources.role = Role::inserted;
    }
  }

  // Returns true if all nodes before that name one of the node's modules are unchanged and none of them only adapts
  // values, so that the node does none of their work.
  bool modules_are_unchanged(const DiffNode& each) {
    if (!changed_modules_) {
      changed_modules_.emplace();
      for (std::size_t i = 0; i < a_.nodes.size(); ++i) {
        const DiffNode& old = a_.nodes[i];
        if (!is_removed(i) && kind_of(*old.node) == kind_of(*b_.nodes[partner_of_a_[i]].node) &&
            !only_adapts(*old.node))
          continue;
        changed_modules_->insert(old.attribution.modules.begin(), old.attribution.modules.end());
      }
    }
    return std::ranges::none_of(each.attribution.modules,
                                [&](const std::string& name) { return changed_modules_->contains(name); });
  }

  // Finds removed nodes whose consumers now read an equal node: they were deduplicated into that node.
  void find_duplicates() {
    for (std::size_t i = 0; i < a_.nodes.size(); ++i) {
      if (!is_removed(i) || a_.nodes[i].constant) continue;
      for (const std::size_t kept_node : equal_nodes_of(i)) {
        if (!is_removed(kept_node) && has_taken_readers(i, partner_of_a_[kept_node]))
          deduplicated_into_.emplace(i, partner_of_a_[kept_node]);
      }
    }
  }

  void deduplicate() {
    for (const auto& [removed, kept_node] : deduplicated_into_) {
      sources_.by_node[kept_node].required.push_back(removed);
      add_region(sources_.by_node[kept_node], removed);
    }
  }

  // Finds the producers and consumers of each inserted node, looking past other inserted nodes.
  void find_neighbours() {
    for (std::size_t i = 0; i < b_.nodes.size(); ++i) {
      if (sources_.by_node[i].role != Role::inserted) continue;
      Nodes todo = {i};
      std::unordered_set<std::size_t> seen = {i};
      const auto visit = [&](std::size_t next) {
        if (seen.size() >= max_neighbours || !seen.insert(next).second) return;
        (sources_.by_node[next].role == Role::inserted ? todo : sources_.by_node[i].neighbours).push_back(next);
      };
      while (!todo.empty()) {
        const std::size_t at = todo.back();
        todo.pop_back();
        b_.each_neighbour(at, visit);
      }
    }
  }

  // Returns all nodes before with the same result, including the node itself.
  const Nodes& equal_nodes_of(std::size_t a) const { return equal_nodes_.at(first_equal_[a]); }

  bool has_taken_readers(std::size_t a, std::size_t b) const {
    const auto& outputs = b_.nodes[b].node->outputs;
    for (const std::string_view value : a_.nodes[a].node->outputs) {
      const auto readers = a_.readers.find(value);
      if (readers == a_.readers.end()) continue;
      for (const std::size_t reader : readers->second) {
        if (is_removed(reader)) continue;
        const auto &was = a_.nodes[reader].node->inputs, &is = b_.nodes[partner_of_a_[reader]].node->inputs;
        for (std::size_t at = 0; at < std::min(was.size(), is.size()); ++at) {
          if (was[at] == value && std::ranges::find(outputs, is[at]) != outputs.end()) return true;
        }
      }
    }
    return false;
  }

  const Side a_, b_;
  const NodePairs& pairs_;
  Nodes partner_of_a_, partner_of_b_;  // by node, its partner in the other file
  std::vector<bool> grouped_;
  Nodes first_equal_;                  // by node before, the first node with the same result, at least itself
  std::vector<Nodes> same_;            // by node after, the nodes before with the same result
  DisjointSets regions_, new_groups_;  // removed nodes before; new nodes after
  Nodes region_of_;
  std::unordered_map<std::size_t, Nodes> kept_partners_;            // by group of new nodes
  std::map<std::size_t, std::size_t> deduplicated_into_;            // removed node -> the kept one
  std::unordered_map<std::size_t, Nodes> equal_nodes_;              // by their first node
  std::optional<std::unordered_set<std::string>> changed_modules_;  // modules with a removed or changed node
  EditSources sources_;
};

}  // namespace

bool only_moves(const OnnxNode& node) { return operators::has(node.op_type, operators::transparent); }

EditSources find_sources(const DiffNodes& before, const DiffNodes& after, const NodePairs& pairs) {
  return SourceFinder(before, after, pairs).result();
}

}  // namespace whence::validation
