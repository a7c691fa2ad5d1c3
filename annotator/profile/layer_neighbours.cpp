#include "annotator/profile/layer_neighbours.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace whence::profile {
namespace {

constexpr std::size_t max_visited = 1000;  // nodes of one walk; a part has few nodes around it

}  // namespace

LayerNeighbours::LayerNeighbours(const std::vector<Layer>& layers, const std::vector<std::vector<std::size_t>>& nodes,
                                 const view::NodeGraph& graph)
    : layers_(layers),
      nodes_(nodes),
      named_(graph.nodes.size()),
      producers_(graph.nodes.size()),
      consumers_(graph.nodes.size()) {
  for (const std::vector<std::size_t>& of_layer : nodes) {
    for (const std::size_t node : of_layer) named_[node] = 1;
  }
  for (const onnx_file::GraphIndex::Edge& edge : graph.index.edges()) {
    const auto from = static_cast<std::size_t>(edge.from), to = static_cast<std::size_t>(edge.to);
    producers_[to].push_back(from);
    consumers_[from].push_back(to);
  }
}

LayerNeighbours::Walk LayerNeighbours::nearest(std::size_t layer, std::vector<std::size_t> Layer::* direction) const {
  std::set<std::size_t> seen = {layer}, found;
  std::vector<std::size_t> open = {layer};
  while (!open.empty()) {
    if (seen.size() > max_visited) return std::nullopt;
    const std::size_t at = open.back();
    open.pop_back();
    for (const std::size_t next : layers_[at].*direction) {
      if (!seen.insert(next).second) continue;
      if (nodes_[next].empty()) open.push_back(next);
      found.insert(nodes_[next].begin(), nodes_[next].end());
    }
  }
  return std::vector<std::size_t>(found.begin(), found.end());
}

LayerNeighbours::Walk LayerNeighbours::unnamed_from(const std::vector<std::size_t>& nodes, const Links& links) const {
  std::set<std::size_t> found;
  std::vector<std::size_t> open = nodes;
  while (!open.empty()) {
    if (found.size() > max_visited) return std::nullopt;
    const std::size_t at = open.back();
    open.pop_back();
    for (const std::size_t next : links[at]) {
      if (!named_[next] && found.insert(next).second) open.push_back(next);
    }
  }
  return std::vector<std::size_t>(found.begin(), found.end());
}

std::vector<std::size_t> LayerNeighbours::possible_nodes(std::size_t layer) const {
  const Walk before = nearest(layer, &Layer::before), after = nearest(layer, &Layer::after);
  if (!before || !after) return {};
  const Walk down = unnamed_from(*before, consumers_), up = unnamed_from(*after, producers_);
  if (!down || !up) return {};
  std::vector<std::size_t> between;
  if (before->empty()) {
    between = *up;
  } else if (after->empty()) {
    between = *down;
  } else {
    std::ranges::set_intersection(*down, *up, std::back_inserter(between));
  }
  if (!between.empty()) return between;
  std::vector<std::size_t> neighbours = *before;
  neighbours.insert(neighbours.end(), after->begin(), after->end());
  return neighbours;
}

}  // namespace whence::profile
