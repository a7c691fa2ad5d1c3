#include "annotator/functions/region.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

namespace whence::functions {

std::string node_text(const WorkGraph& graph, std::int32_t index) {
  const WorkNode& node = graph.nodes()[index];
  std::string text(node.node->op_type);
  if (!node.node->name.empty()) text += " '" + std::string(node.node->name) + "'";
  if (!node.instance.exists()) return text + ", whose module is unknown";
  const std::string& path = graph.instances()[node.instance].path;
  return text + (path.empty() ? " of the root" : " of " + path);
}

namespace {

// Returns true if a region of `own` nodes may add `added` nodes; it must not absorb the enclosing module.
bool is_few(std::size_t added, std::size_t own) { return added <= std::max<std::size_t>(2, own / 2); }

// Helpers: nodes that exporters place in the first call that needs them and then share, such as a mask or an axis
// length. A node is a helper if another call of a module of the same class reads it, and if it is computed from values
// outside the call in a few steps and without a weight. Without helpers the first call equals the later calls.
class Helpers {
 public:
  Helpers(const WorkGraph& graph, const Region& region) : graph_(graph), region_(region) {}

  // Returns the region's nodes without helpers, or all nodes if all are helpers.
  std::vector<std::int32_t> nodes_without_helpers() const {
    std::set<std::int32_t> helpers;
    for (const std::int32_t node : region_.nodes) {
      if (!is_read_by_same_class(node)) continue;
      std::set<std::int32_t> producers;
      if (collect(node, producers)) helpers.insert(producers.begin(), producers.end());
    }
    std::vector<std::int32_t> remaining;
    for (const std::int32_t node : region_.nodes) {
      if (!helpers.contains(node)) remaining.push_back(node);
    }
    return remaining.empty() ? region_.nodes : remaining;
  }

 private:
  bool inside(std::int32_t node) const { return std::ranges::binary_search(region_.nodes, node); }

  bool is_read_by_same_class(std::int32_t node) const {
    const Instances& instances = graph_.instances();
    const ModuleCall& own = instances[region_.instance];
    for (const ValueId id : graph_.nodes()[node].writes) {
      if (id < 0) continue;
      for (const std::int32_t reader : graph_.value(id).readers) {
        const CallIndex other = instances.ancestor(graph_.nodes()[reader].instance, own.depth);
        if (other.exists() && other != region_.instance && instances[other].type == own.type) return true;
      }
    }
    return false;
  }

  // Adds the node and the nodes of the region that it is computed from. Returns false if it is not a helper.
  bool collect(std::int32_t node, std::set<std::int32_t>& producers) const {
    if (!producers.insert(node).second) return true;
    if (producers.size() > std::max<std::size_t>(2, region_.nodes.size() / 4)) return false;
    return std::ranges::all_of(graph_.nodes()[node].reads, [&](ValueId id) {
      const WorkValue& value = graph_.value(id);
      if (value.initializer >= 0) return graph_.constant(id) != nullptr;
      return value.producer < 0 || !inside(value.producer) || collect(value.producer, producers);
    });
  }

  const WorkGraph& graph_;
  const Region& region_;
};

void make_convex(const WorkGraph& graph, Region& region) {
  const std::vector<std::int32_t> between = nodes_between(graph, region.nodes);
  if (between.empty()) return;
  const auto foreign_node = std::ranges::find_if(between, [&](std::int32_t node) {
    const CallIndex owner = graph.nodes()[node].instance;
    return !owner.exists() || !graph.instances().within(region.instance, owner);
  });
  if (foreign_node != between.end()) {
    region.refusal = node_text(graph, *foreign_node) + " is between its nodes";
    return;
  }
  if (!is_few(between.size(), region.nodes.size())) {
    region.refusal = std::to_string(between.size()) + " nodes of enclosing modules are between its " +
                     std::to_string(region.nodes.size()) + " nodes, for example " + node_text(graph, between.front());
    return;
  }
  region.taken_along = static_cast<std::int64_t>(between.size());
  region.nodes.insert(region.nodes.end(), between.begin(), between.end());
  std::ranges::sort(region.nodes);
}

// The graph with each region contracted to one node. Its nodes are called units.
struct ContractedGraph {
  std::vector<std::int32_t> unit_of;  // by node of the graph; the first units are the regions

  ContractedGraph(const WorkGraph& graph, const std::vector<Region>& regions) : unit_of(graph.nodes().size(), -1) {
    auto units = static_cast<std::int32_t>(regions.size());
    for (std::size_t i = 0; i < regions.size(); ++i) {
      if (!regions[i].refusal.empty()) continue;
      for (const std::int32_t node : regions[i].nodes) unit_of[node] = static_cast<std::int32_t>(i);
    }
    for (std::int32_t& unit : unit_of) {
      if (unit < 0) unit = units++;
    }
    before_.first.assign(units + 1, 0), after_.first.assign(units + 1, 0);
    walk_edges(graph, [&](std::int32_t from, std::int32_t to) { ++before_.first[to], ++after_.first[from]; });
    before_.make_room(), after_.make_room();
    walk_edges(graph, [&](std::int32_t from, std::int32_t to) { before_.add(to, from), after_.add(from, to); });
  }

  // Returns the regions on a cycle; empty if there is no cycle.
  std::vector<std::int32_t> cycle(std::size_t regions) const {
    std::vector<std::size_t> missing_inputs;
    std::vector<std::int32_t> ready;
    for (std::size_t unit = 0; unit + 1 < before_.first.size(); ++unit) {
      missing_inputs.push_back(before_.of(static_cast<std::int32_t>(unit)).size());
      if (missing_inputs.back() == 0) ready.push_back(static_cast<std::int32_t>(unit));
    }
    while (!ready.empty()) {
      const std::int32_t unit = ready.back();
      ready.pop_back();
      for (const std::int32_t next : after_.of(unit)) {
        if (--missing_inputs[next] == 0) ready.push_back(next);
      }
    }
    const auto first_remaining = std::ranges::find_if(missing_inputs, [](std::size_t count) { return count > 0; });
    if (first_remaining == missing_inputs.end()) return {};
    // Each remaining unit reads from another one, so the way back through producers leads into a cycle.
    std::vector<std::int32_t> path;
    auto unit = static_cast<std::int32_t>(first_remaining - missing_inputs.begin());
    while (std::ranges::find(path, unit) == path.end()) {
      path.push_back(unit);
      unit = *std::ranges::find_if(before_.of(unit), [&](std::int32_t earlier) { return missing_inputs[earlier] > 0; });
    }
    path.erase(path.begin(), std::ranges::find(path, unit));
    std::erase_if(path, [&](std::int32_t each) { return each >= static_cast<std::int32_t>(regions); });
    return path;
  }

 private:
  // A list of units for each unit, in one array.
  struct Lists {
    std::vector<std::size_t> first;  // start of each list; before make_room() its length
    std::vector<std::int32_t> units;

    void make_room() {
      std::size_t end = 0;
      for (std::size_t& each : first) end += std::exchange(each, end);
      units.resize(end);
      filled_.assign(first.begin(), first.end());
    }
    void add(std::int32_t to, std::int32_t unit) { units[filled_[to]++] = unit; }
    std::span<const std::int32_t> of(std::int32_t unit) const {
      return std::span(units).subspan(first[unit], first[unit + 1] - first[unit]);
    }

   private:
    std::vector<std::size_t> filled_;
  };

  template <class Visit>
  void walk_edges(const WorkGraph& graph, const Visit& visit) const {
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      for (const ValueId id : graph.nodes()[i].reads) {
        const std::int32_t producer = graph.value(id).producer;
        if (producer >= 0 && unit_of[producer] != unit_of[i]) visit(unit_of[producer], unit_of[i]);
      }
    }
  }

  Lists before_, after_;
};

// Regions that read from each other cannot each become one node: refuses the smallest on a cycle until none is left.
void refuse_cycles(const WorkGraph& graph, std::vector<Region>& regions) {
  while (true) {
    const std::vector<std::int32_t> cycle = ContractedGraph(graph, regions).cycle(regions.size());
    if (cycle.empty()) return;
    const std::int32_t smallest =
        *std::ranges::min_element(cycle, {}, [&](std::int32_t i) { return regions[i].nodes.size(); });
    const std::int32_t other = smallest == cycle.front() ? cycle.back() : cycle.front();
    regions[smallest].refusal =
        "it reads from " + graph.instances()[regions[other].instance].path + ", which also reads from it";
  }
}

}  // namespace

std::vector<std::int32_t> nodes_between(const WorkGraph& graph, const std::vector<std::int32_t>& nodes) {
  const std::int32_t first = nodes.front(), last = nodes.back();
  // 1 for a node of `nodes`, 2 for a node that depends on one. In topological order one pass each way is enough.
  std::vector<char> state(last - first + 1, 0);
  for (const std::int32_t node : nodes) state[node - first] = 1;
  for (std::int32_t i = first; i <= last; ++i) {
    if (state[i - first] != 0) continue;
    for (const ValueId id : graph.nodes()[i].reads) {
      const std::int32_t producer = graph.value(id).producer;
      if (producer >= first && state[producer - first] != 0) state[i - first] = 2;
    }
  }
  std::vector<char> leads_in(state.size(), 0);
  std::vector<std::int32_t> between;
  for (std::int32_t i = last; i >= first; --i) {
    if (state[i - first] != 2) continue;
    for (const ValueId id : graph.nodes()[i].writes) {
      if (id < 0) continue;
      for (const std::int32_t reader : graph.value(id).readers) {
        if (reader <= last && (state[reader - first] == 1 || leads_in[reader - first] != 0)) leads_in[i - first] = 1;
      }
    }
    if (leads_in[i - first] != 0) between.push_back(i);
  }
  std::ranges::reverse(between);
  return between;
}

namespace {

// Returns the nodes of each call, without added nodes.
std::vector<Region> own_regions(const WorkGraph& graph, const std::vector<CallIndex>& calls) {
  constexpr std::int32_t none = -1;
  std::vector<Region> regions;
  IndexedVector<CallIndex, std::int32_t> region_of(graph.instances().size(), none);
  for (const CallIndex call : calls) {
    region_of[call] = static_cast<std::int32_t>(regions.size());
    regions.emplace_back().instance = call;
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    for (CallIndex id = graph.nodes()[i].instance; id.exists(); id = graph.instances()[id].parent) {
      if (region_of[id] == none) continue;
      regions[region_of[id]].nodes.push_back(static_cast<std::int32_t>(i));
      break;
    }
  }
  std::erase_if(regions, [](const Region& region) { return region.nodes.empty(); });
  return regions;
}

}  // namespace

Region joined_region(const WorkGraph& graph, const std::vector<CallIndex>& calls, CallIndex enclosing) {
  Region region{enclosing, {}, 0, ""};
  for (const Region& each : own_regions(graph, calls)) {
    region.nodes.insert(region.nodes.end(), each.nodes.begin(), each.nodes.end());
  }
  std::ranges::sort(region.nodes);
  if (!region.nodes.empty()) make_convex(graph, region);
  return region;
}

std::vector<Region> regions_of(const WorkGraph& graph, const std::vector<CallIndex>& calls) {
  std::vector<Region> regions = own_regions(graph, calls);
  // A node that was added to one region is not available to later regions.
  std::vector<char> is_added(graph.nodes().size(), 0);
  for (Region& region : regions) {
    region.nodes = Helpers(graph, region).nodes_without_helpers();
    make_convex(graph, region);
    if (region.taken_along == 0) continue;
    for (const std::int32_t node : region.nodes) {
      if (is_added[node] != 0) region.refusal = "it shares " + node_text(graph, node) + " with another module";
    }
    if (!region.refusal.empty()) continue;
    for (const std::int32_t node : region.nodes) is_added[node] = 1;
  }
  refuse_cycles(graph, regions);
  return regions;
}

}  // namespace whence::functions
