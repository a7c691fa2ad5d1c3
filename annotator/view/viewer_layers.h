// The layers around each node in a viewer that nests by paths with slashes: "encoder: Encoder/layer.0: Layer (call 1)".
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "annotator/view/node_graph.h"

namespace whence::view {

struct ViewerLayer {
  std::string path;                // with those around it
  std::optional<std::size_t> row;  // the module; none: a part of the names of nodes without a module
};

// The layer of nodes that no module is known for, around those that the slashes in their names make.
inline constexpr std::string_view unattributed_layer = "unattributed (by node names)";

class ViewerLayers {
 public:
  // `graph` must outlive it.
  explicit ViewerLayers(const NodeGraph& graph);

  // Outermost first; empty for nodes of the root module. A module that the file's nodes know by several calls has its
  // call's number in the layer's name, as far as the node states it.
  std::vector<ViewerLayer> of(const PlacedNode& placed) const;

 private:
  const NodeGraph& graph_;
  std::unordered_set<std::string> called_again_;  // paths of modules with a second call
};

}  // namespace whence::view
