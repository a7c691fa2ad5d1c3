// LayerNeighbours: the nodes that a layer without a node's name may contain, from the neighbouring layers. OpenVINO
// decomposes operators and names the parts like "MVN_18". Such a part contains the unnamed nodes between the layers
// before and after it. If there are none, it moves data between its neighbours.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "annotator/profile/runtime_profile.h"
#include "annotator/view/node_graph.h"

namespace whence::profile {

class LayerNeighbours {
 public:
  // `nodes`: for each layer, the numbers of the nodes that it names. All arguments must outlive this. Cost: linear.
  LayerNeighbours(const std::vector<Layer>& layers, const std::vector<std::vector<std::size_t>>& nodes,
                  const view::NodeGraph& graph);

  // Returns the unnamed nodes between the nearest named layers, or the nodes of these layers if there are none between.
  // Empty if the search exceeds its limit.
  std::vector<std::size_t> possible_nodes(std::size_t layer) const;

 private:
  using Links = std::vector<std::vector<std::size_t>>;

  // Ascending; nullopt if the walk exceeds its limit.
  using Walk = std::optional<std::vector<std::size_t>>;
  Walk nearest(std::size_t layer, std::vector<std::size_t> Layer::* direction) const;
  Walk unnamed_from(const std::vector<std::size_t>& nodes, const Links& links) const;

  const std::vector<Layer>& layers_;
  const std::vector<std::vector<std::size_t>>& nodes_;
  std::vector<char> named_;      // by node: 1 if a layer names it
  Links producers_, consumers_;  // by node
};

}  // namespace whence::profile
