#include "annotator/profile/layer_modules.h"

#include <algorithm>
#include <set>

#include "annotator/profile/layer_neighbours.h"

namespace whence::profile {
namespace {

constexpr std::size_t root = 0;  // row of the module tree

// Returns the module around these rows, with the rows as parts if there are several.
LayerModules around(const view::ModuleTree& tree, const std::set<std::size_t>& rows, ProfileRule rule) {
  if (rows.empty()) return {};
  LayerModules modules;
  modules.rule = rule;
  modules.row = row_around(tree, {rows.begin(), rows.end()});
  if (rows.size() > 1) modules.parts.assign(rows.begin(), rows.end());
  return modules;
}

// Collects rows of nodes. A node without a module may belong to any, so it counts as the root's.
class Rows {
 public:
  explicit Rows(const view::NodeGraph& graph) : graph_(graph) {}

  void add(std::size_t node) { rows_.insert(graph_.nodes[node].row.value_or(root)); }
  void add_row(std::size_t row) { rows_.insert(row); }
  const std::set<std::size_t>& all() const { return rows_; }

 private:
  const view::NodeGraph& graph_;
  std::set<std::size_t> rows_;
};

}  // namespace

std::size_t row_around(const view::ModuleTree& tree, const std::vector<std::size_t>& rows) {
  std::size_t common = rows.front();
  for (std::size_t row : rows) {
    while (tree.rows[row].level > tree.rows[common].level) row = *tree.rows[row].parent;
    while (tree.rows[common].level > tree.rows[row].level) common = *tree.rows[common].parent;
    while (row != common) row = *tree.rows[row].parent, common = *tree.rows[common].parent;
  }
  return common;
}

std::vector<std::size_t> LayerPlacer::nodes_named(const std::vector<std::string>& names) const {
  std::set<std::size_t> nodes;
  for (const std::string& name : names) {
    for (const std::size_t node : names_.listed(inlined_.name_by_whence(name))) nodes.insert(node);
  }
  return {nodes.begin(), nodes.end()};
}

std::vector<std::size_t> LayerPlacer::listed_nodes(const Layer& layer) const {
  std::vector<std::size_t> nodes = nodes_named(layer.holds.names);
  return nodes.empty() ? nodes_named(layer.holds.within) : nodes;
}

// A module without a node in the file counts for the nearest module around it that has one.
LayerModules LayerPlacer::by_module(const Layer& layer) const {
  Rows rows(graph_);
  for (std::string_view module : layer.holds.modules) {
    while (!module.empty() && !rows_.contains(module)) {
      const std::size_t dot = module.rfind('.');
      module = dot == std::string_view::npos ? "" : module.substr(0, dot);
    }
    rows.add_row(module.empty() ? root : rows_.at(module));
  }
  return around(graph_.tree, rows.all(), ProfileRule::module);
}

LayerModules LayerPlacer::by_name(const Layer& layer) const {
  FoundNode found;
  if (optimized_ != nullptr) found = optimized_->find(layer.name);
  if (found.rule == ProfileRule::none) found = names_.find(inlined_.name_by_whence(layer.name), layer.op_type);
  return {found.rule, found.row, found.call, found.parts, found.same_operator};
}

LayerModules LayerPlacer::by_list(const Layer& layer) const {
  Rows rows(graph_);
  for (const std::size_t node : listed_nodes(layer)) rows.add(node);
  if (optimized_ != nullptr) {
    for (const std::string& name : layer.holds.names) {
      if (const FoundNode found = optimized_->find(name); found.row) rows.add_row(*found.row);
    }
  }
  for (const auto& [first, last] : layer.holds.regions) {
    const std::vector<std::size_t> begin = names_.listed(first), end = names_.listed(last);
    if (begin.empty() && end.empty()) continue;
    // An unknown end leaves the region open on that side; ends in reverse order leave it open on both.
    std::size_t from = begin.empty() ? 0 : begin.front();
    std::size_t to = end.empty() ? graph_.nodes.size() - 1 : end.back();
    if (from > to) from = 0, to = graph_.nodes.size() - 1;
    for (std::size_t node = from; node <= to; ++node) rows.add(node);
  }
  if (layer.holds.cut && !rows.all().empty()) rows.add_row(root);
  LayerModules modules = around(graph_.tree, rows.all(), ProfileRule::listed);
  if (!modules.row || !modules.parts.empty()) return modules;
  // All nodes belong to one module; if they also belong to one call, so does the layer.
  const std::vector<std::size_t> nodes = listed_nodes(layer);
  if (nodes.empty() || !layer.holds.regions.empty()) return modules;
  const auto call_of = [&](std::size_t node) { return graph_.attribution_of(graph_.nodes[node]).call; };
  const std::string call = call_of(nodes.front());
  const bool one = std::ranges::all_of(nodes, [&](std::size_t each) { return call_of(each) == call; });
  if (one) modules.call = call;
  return modules;
}

std::vector<LayerModules> LayerPlacer::place(const RuntimeProfile& profile) const {
  std::vector<LayerModules> placed(profile.layers.size());
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const Layer& layer = profile.layers[i];
    if (!layer.holds.modules.empty()) {
      placed[i] = by_module(layer);
    } else if (!layer.holds.empty()) {
      placed[i] = by_list(layer);
    }
    if (placed[i].rule == ProfileRule::none) placed[i] = by_name(layer);
  }
  const bool connected = std::ranges::any_of(profile.layers, [](const Layer& layer) { return !layer.before.empty(); });
  if (!connected) return placed;

  std::vector<std::vector<std::size_t>> nodes(placed.size());
  for (std::size_t i = 0; i < placed.size(); ++i) nodes[i] = listed_nodes(profile.layers[i]);
  const LayerNeighbours neighbours(profile.layers, nodes, graph_);
  std::vector<LayerModules> found(placed.size());
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (placed[i].rule != ProfileRule::none || profile.layers[i].count == 0) continue;
    Rows rows(graph_);
    for (const std::size_t node : neighbours.possible_nodes(i)) rows.add(node);
    found[i] = around(graph_.tree, rows.all(), ProfileRule::between);
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (found[i].row) placed[i] = std::move(found[i]);
  }
  return placed;
}

std::optional<std::size_t> LayerPlacer::node_of(const Layer& layer) const {
  const std::vector<std::size_t> nodes =
      layer.holds.names.empty() ? names_.listed(inlined_.name_by_whence(layer.name)) : listed_nodes(layer);
  return nodes.empty() ? std::nullopt : std::optional(nodes.front());
}

bool LayerPlacer::has_node_in_model(const Layer& layer) const {
  if (!layer.holds.modules.empty()) {
    return std::ranges::all_of(layer.holds.modules,
                               [&](const std::string& module) { return module.empty() || rows_.contains(module); });
  }
  const std::string name = inlined_.name_by_whence(layer.name);
  if (names_.known(name) || !names_.origin_in(name).empty()) return true;
  if (optimized_ != nullptr && optimized_->find(layer.name).rule == ProfileRule::match) return true;
  return by_list(layer).row.has_value();
}

}  // namespace whence::profile
