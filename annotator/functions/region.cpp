#include "annotator/functions/region.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

namespace whence::functions {

std::string described(const WorkGraph& graph, std::int32_t index) {
  const WorkNode& node = graph.nodes()[index];
  std::string text(node.node->op_type);
  if (!node.node->name.empty()) text += " '" + std::string(node.node->name) + "'";
  if (!node.instance.exists()) return text + ", whose module is not known";
  const std::string& path = graph.instances()[node.instance].path;
  return text + (path.empty() ? " of the root" : " of " + path);
}

namespace {

// A module may take along the few nodes in between, not the module around it.
bool few(std::size_t taken, std::size_t own) { return taken <= std::max<std::size_t>(2, own / 2); }

// Helpers: nodes that exporters place in the first call that needs them and then share: a mask, an axis length. A node
// is a helper when another call of a module of the same class reads it, and it is computed from values from outside the
// call in a few steps, without a weight. Helpers are left out of the call, so that the first call is equal to the
// others.
class Helpers {
 public:
  Helpers(const WorkGraph& graph, const Region& region) : graph_(graph), region_(region) {}

  // Returns the region's nodes without helpers; all nodes when all are helpers.
  std::vector<std::int32_t> left_out() const {
    std::set<std::int32_t> helpers;
    for (const std::int32_t node : region_.nodes) {
      if (!read_by_likes(node)) continue;
      std::set<std::int32_t> made_by;
      if (collect(node, made_by)) helpers.insert(made_by.begin(), made_by.end());
    }
    std::vector<std::int32_t> rest;
    for (const std::int32_t node : region_.nodes) {
      if (!helpers.contains(node)) rest.push_back(node);
    }
    return rest.empty() ? region_.nodes : rest;
  }

 private:
  bool inside(std::int32_t node) const { return std::ranges::binary_search(region_.nodes, node); }

  bool read_by_likes(std::int32_t node) const {
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

  // Adds the node and the nodes of the region that it is computed from; false when it is not a helper.
  bool collect(std::int32_t node, std::set<std::int32_t>& made_by) const {
    if (!made_by.insert(node).second) return true;
    if (made_by.size() > std::max<std::size_t>(2, region_.nodes.size() / 4)) return false;
    return std::ranges::all_of(graph_.nodes()[node].reads, [&](ValueId id) {
      const WorkValue& value = graph_.value(id);
      if (value.initializer >= 0) return graph_.constant(id) != nullptr;
      return value.producer < 0 || !inside(value.producer) || collect(value.producer, made_by);
    });
  }

  const WorkGraph& graph_;
  const Region& region_;
};

void close(const WorkGraph& graph, Region& region) {
  const std::vector<std::int32_t> between = nodes_between(graph, region.nodes);
  if (between.empty()) return;
  const auto foreign = std::ranges::find_if(between, [&](std::int32_t node) {
    const CallIndex owner = graph.nodes()[node].instance;
    return !owner.exists() || !graph.instances().within(region.instance, owner);
  });
  if (foreign != between.end()) {
    region.refusal = "between its nodes lies " + described(graph, *foreign);
    return;
  }
  if (!few(between.size(), region.nodes.size())) {
    region.refusal = std::to_string(between.size()) + " nodes of the modules around it lie between its " +
                     std::to_string(region.nodes.size()) + " nodes, for example " + described(graph, between.front());
    return;
  }
  region.taken_along = static_cast<std::int64_t>(between.size());
  region.nodes.insert(region.nodes.end(), between.begin(), between.end());
  std::ranges::sort(region.nodes);
}

// The graph in which each region is one node.
struct Contracted {
  std::vector<std::int32_t> unit_of;  // by node; the first units are the regions

  Contracted(const WorkGraph& graph, const std::vector<Region>& regions) : unit_of(graph.nodes().size(), -1) {
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

  // The regions of some circle; empty when there is none.
  std::vector<std::int32_t> circle(std::size_t regions) const {
    std::vector<std::size_t> waits;
    std::vector<std::int32_t> ready;
    for (std::size_t unit = 0; unit + 1 < before_.first.size(); ++unit) {
      waits.push_back(before_.of(static_cast<std::int32_t>(unit)).size());
      if (waits.back() == 0) ready.push_back(static_cast<std::int32_t>(unit));
    }
    while (!ready.empty()) {
      const std::int32_t unit = ready.back();
      ready.pop_back();
      for (const std::int32_t next : after_.of(unit)) {
        if (--waits[next] == 0) ready.push_back(next);
      }
    }
    const auto stuck = std::ranges::find_if(waits, [](std::size_t count) { return count > 0; });
    if (stuck == waits.end()) return {};
    // A stuck unit waits for another stuck unit, so going back from unit to unit leads into the circle.
    std::vector<std::int32_t> way;
    auto unit = static_cast<std::int32_t>(stuck - waits.begin());
    while (std::ranges::find(way, unit) == way.end()) {
      way.push_back(unit);
      unit = *std::ranges::find_if(before_.of(unit), [&](std::int32_t earlier) { return waits[earlier] > 0; });
    }
    way.erase(way.begin(), std::ranges::find(way, unit));
    std::erase_if(way, [&](std::int32_t each) { return each >= static_cast<std::int32_t>(regions); });
    return way;
  }

 private:
  // Lists of units by unit, in one array.
  struct Lists {
    std::vector<std::size_t> first;  // at first the length of each list
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

// Regions that feed each other cannot all become one node each: refuses the smallest of them until no circle is left.
void refuse_circles(const WorkGraph& graph, std::vector<Region>& regions) {
  while (true) {
    const std::vector<std::int32_t> circle = Contracted(graph, regions).circle(regions.size());
    if (circle.empty()) return;
    const std::int32_t smallest =
        *std::ranges::min_element(circle, {}, [&](std::int32_t i) { return regions[i].nodes.size(); });
    const std::int32_t other = smallest == circle.front() ? circle.back() : circle.front();
    regions[smallest].refusal =
        "it reads from " + graph.instances()[regions[other].instance].path + " and feeds it, too";
  }
}

}  // namespace

std::vector<std::int32_t> nodes_between(const WorkGraph& graph, const std::vector<std::int32_t>& nodes) {
  const std::int32_t first = nodes.front(), last = nodes.back();
  // of[i - first]: 1 inside, 2 reads what came from inside; topological order makes one pass each way enough.
  std::vector<char> of(last - first + 1, 0);
  for (const std::int32_t node : nodes) of[node - first] = 1;
  for (std::int32_t i = first; i <= last; ++i) {
    if (of[i - first] != 0) continue;
    for (const ValueId id : graph.nodes()[i].reads) {
      const std::int32_t producer = graph.value(id).producer;
      if (producer >= first && of[producer - first] != 0) of[i - first] = 2;
    }
  }
  std::vector<char> leads_in(of.size(), 0);
  std::vector<std::int32_t> between;
  for (std::int32_t i = last; i >= first; --i) {
    if (of[i - first] != 2) continue;
    for (const ValueId id : graph.nodes()[i].writes) {
      if (id < 0) continue;
      for (const std::int32_t reader : graph.value(id).readers) {
        if (reader <= last && (of[reader - first] == 1 || leads_in[reader - first] != 0)) leads_in[i - first] = 1;
      }
    }
    if (leads_in[i - first] != 0) between.push_back(i);
  }
  std::ranges::reverse(between);
  return between;
}

namespace {

// Returns the nodes of each call, without nodes that are taken along.
std::vector<Region> bare_regions(const WorkGraph& graph, const std::vector<CallIndex>& calls) {
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

Region joined_region(const WorkGraph& graph, const std::vector<CallIndex>& calls, CallIndex around) {
  Region region{around, {}, 0, ""};
  for (const Region& each : bare_regions(graph, calls)) {
    region.nodes.insert(region.nodes.end(), each.nodes.begin(), each.nodes.end());
  }
  std::ranges::sort(region.nodes);
  if (!region.nodes.empty()) close(graph, region);
  return region;
}

std::vector<Region> regions_of(const WorkGraph& graph, const std::vector<CallIndex>& calls) {
  std::vector<Region> regions = bare_regions(graph, calls);
  // A node that one region took along is not available to the next.
  std::vector<char> taken(graph.nodes().size(), 0);
  for (Region& region : regions) {
    region.nodes = Helpers(graph, region).left_out();
    close(graph, region);
    if (region.taken_along == 0) continue;
    for (const std::int32_t node : region.nodes) {
      if (taken[node] != 0) region.refusal = "it shares " + described(graph, node) + " with another module";
    }
    if (!region.refusal.empty()) continue;
    for (const std::int32_t node : region.nodes) taken[node] = 1;
  }
  refuse_circles(graph, regions);
  return regions;
}

}  // namespace whence::functions
