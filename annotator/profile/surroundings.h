// Surroundings: the nodes that a layer without a node's name may hold, from the layers around it. OpenVINO takes
// operators apart and calls the parts "MVN_18"; what stands between the layers before and after such a part, and is
// named by no layer, is what it was made of. A part that nothing of the model is left for moves data between its
// neighbours.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "annotator/profile/runtime_profile.h"
#include "annotator/view/node_graph.h"

namespace whence::profile {

class Surroundings {
 public:
  // `nodes`: by layer, the numbers of the nodes that it names. Layers and graph outlive this. Cost: linear.
  Surroundings(const std::vector<Layer>& layers, const std::vector<std::vector<std::size_t>>& nodes,
               const view::NodeGraph& graph);

  // The nodes between, or if there are none those of the nearest layers; none when there are more around than can be
  // looked at.
  std::vector<std::size_t> around(std::size_t layer) const;

 private:
  using Links = std::vector<std::vector<std::size_t>>;

  // Ascending; no value when there are too many.
  using Walk = std::optional<std::vector<std::size_t>>;
  Walk nearest(std::size_t layer, std::vector<std::size_t> Layer::*direction) const;
  Walk unnamed_from(const std::vector<std::size_t>& nodes, const Links& links) const;

  const std::vector<Layer>& layers_;
  const std::vector<std::vector<std::size_t>>& nodes_;
  std::vector<char> named_;      // by node: a layer names it
  Links producers_, consumers_;  // by node
};

}  // namespace whence::profile
