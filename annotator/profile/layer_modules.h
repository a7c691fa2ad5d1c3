// The modules of a layer: the one that surely has all of it, and those that may have a part.
//
// A layer that a runtime made of nodes of several modules belongs to the lowest module around them all; of the modules
// within, each that has one of its nodes may have taken some of its time, and nothing says how much.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annotator/profile/inlined_names.h"
#include "annotator/profile/node_finder.h"
#include "annotator/profile/runtime_profile.h"

namespace whence::profile {

struct LayerModules {
  ProfileRule rule = ProfileRule::none;
  std::optional<std::size_t> row;  // the module around all nodes of the layer; none: not known
  std::string call;                // number of that module's call; empty when not known
  std::vector<std::size_t> parts;  // rows of nodes it holds or may hold, if they are of several modules; else empty
  bool same_operator = true;
};

class LayerPlacer {
 public:
  // `optimized` may be null. All outlive the placer.
  LayerPlacer(const view::NodeGraph& graph, const NodeFinder& names, const InlinedNames& inlined,
              const OptimizedFinder* optimized)
      : graph_(graph), names_(names), inlined_(inlined), optimized_(optimized) {}

  // By layer. Cost: linear in layers and nodes; a layer that no name leads to a node looks at its surroundings alone.
  std::vector<LayerModules> place(const RuntimeProfile& profile) const;

  // The node of the model that the layer is shown at: the one whose name it has or kept, or the first that it lists.
  std::optional<std::size_t> node_of(const Layer& layer) const;

  // True when a name of the layer, or in its list, leads to a node of the model.
  bool meets(const Layer& layer) const;

 private:
  LayerModules by_name(const Layer& layer) const;
  LayerModules by_list(const Layer& layer) const;
  std::vector<std::size_t> listed_nodes(const Layer& layer) const;

  const view::NodeGraph& graph_;
  const NodeFinder& names_;
  const InlinedNames& inlined_;
  const OptimizedFinder* optimized_;
};

// The row of the lowest module around all rows, which are at least one.
std::size_t row_around(const view::ModuleTree& tree, const std::vector<std::size_t>& rows);

}  // namespace whence::profile
