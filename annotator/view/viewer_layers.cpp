#include "annotator/view/viewer_layers.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ranges>
#include <unordered_map>
#include <unordered_set>

#include "annotator/metadata/call_path.h"
#include "schema/module_path.h"

namespace whence::view {

namespace {

using metadata::CalledModule;

// A slash in a module's name would start another layer.
std::string without_slashes(std::string name) {
  std::ranges::replace(name, '/', '|');
  return name;
}

// Returns "attention" for "encoder.layer.0.attention", and "layer.0" for "encoder.layer.0".
std::string module_name(std::string_view path) {
  const std::string last = last_segment(path);
  const bool number = std::ranges::all_of(last, [](unsigned char c) { return std::isdigit(c) != 0; });
  const std::string around = last_segment(module_around(path));
  return number && !around.empty() ? around + "." + last : last;
}

// Returns the called modules that enclose a node. The last may come from the node's call number alone.
std::vector<CalledModule> way_of(const NodeGraph& graph, const PlacedNode& placed) {
  if (!placed.row) return {};
  const onnx_file::OnnxProperties metadata = placed.node->metadata.list();
  std::vector<CalledModule> way = metadata::stated_modules(*placed.node);
  metadata::set_call_numbers(metadata, way);
  const std::string& module = graph.tree.rows[*placed.row].path;
  if (std::ranges::any_of(way, [&](const auto& each) { return each.path == module; })) return way;
  const std::string call = graph.attribution_of(placed).call;
  if (!call.empty() && std::ranges::all_of(call, [](unsigned char c) { return std::isdigit(c) != 0; })) {
    way.push_back({.path = module, .call = std::atoi(call.c_str())});
  }
  return way;
}

std::vector<ViewerLayer> name_layers(std::string_view name) {
  std::string path(unattributed_layer);
  std::vector<ViewerLayer> layers = {{path, std::nullopt}};
  const std::size_t last = name.rfind('/');
  if (last == std::string_view::npos) return layers;
  for (std::size_t begin = 0; begin < last;) {
    const std::size_t end = std::min(name.find('/', begin), last);
    if (end > begin) {
      path += "/" + std::string(name.substr(begin, end - begin));
      layers.push_back({path, std::nullopt});
    }
    begin = end + 1;
  }
  return layers;
}

}  // namespace

ViewerLayers::ViewerLayers(const NodeGraph& graph) : graph_(graph) {
  for (const PlacedNode& placed : graph.nodes) {
    for (const CalledModule& module : way_of(graph, placed)) {
      if (module.call > 0) called_again_.insert(module.path);
    }
  }
}

std::vector<ViewerLayer> ViewerLayers::of(const PlacedNode& placed) const {
  if (!placed.row) return name_layers(placed.node->name);
  std::vector<std::size_t> rows;
  for (std::optional<std::size_t> row = placed.row; row && graph_.tree.rows[*row].parent;
       row = graph_.tree.rows[*row].parent) {
    rows.push_back(*row);
  }
  const std::vector<CalledModule> way = called_again_.empty() ? std::vector<CalledModule>() : way_of(graph_, placed);
  std::vector<ViewerLayer> layers;
  std::string path;
  for (const std::size_t row : rows | std::views::reverse) {
    const ModuleRow& module = graph_.tree.rows[row];
    std::string name = module_name(module.path);
    if (const std::string type = last_segment(module.type); !type.empty()) name += ": " + type;
    if (called_again_.contains(module.path)) {
      const auto called = std::ranges::find(way, module.path, &CalledModule::path);
      if (called != way.end()) name += " (call " + std::to_string(called->call) + ")";
    }
    path += (path.empty() ? "" : "/") + without_slashes(std::move(name));
    layers.push_back({path, row});
  }
  return layers;
}

}  // namespace whence::view
