// The layers around each node, for viewers that nest by paths with slashes: "encoder: Encoder/layer.0: Layer (call 1)".
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
  std::string path;                // includes the enclosing layers
  std::optional<std::size_t> row;  // the module's row; nullopt: a part of the name of a node without a module
};

// The outermost layer of nodes without a module; the slashes in their names make the inner layers.
inline constexpr std::string_view unattributed_layer = "unattributed (by node names)";

class ViewerLayers {
 public:
  // `graph` must outlive this.
  explicit ViewerLayers(const NodeGraph& graph);

  // Returns the layers of a node, outermost first; empty for nodes of the root module. If the file has several calls of
  // a module, the layer's name includes the call number, if the node states it.
  std::vector<ViewerLayer> of(const PlacedNode& placed) const;

 private:
  const NodeGraph& graph_;
  std::unordered_set<std::string> called_again_;  // paths of modules with a second call
};

}  // namespace whence::view
