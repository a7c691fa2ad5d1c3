// The modules of a layer: the module that encloses all of it, and the modules that may have a part of it.
//
// A layer with nodes of several modules belongs to their lowest common ancestor. Every module below this ancestor that
// has a node of the layer may account for an unknown part of the layer's time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "annotator/profile/inlined_names.h"
#include "annotator/profile/node_finder.h"
#include "annotator/profile/runtime_profile.h"

namespace whence::profile {

struct LayerModules {
  ProfileRule rule = ProfileRule::none;
  std::optional<std::size_t> row;  // the module around all nodes of the layer; nullopt: unknown
  std::string call;                // number of that module's call; empty if unknown
  std::vector<std::size_t> parts;  // rows of the layer's possible modules, if there are several; else empty
  bool same_operator = true;
};

class LayerPlacer {
 public:
  // `optimized` may be null. All arguments must outlive the placer.
  LayerPlacer(const view::NodeGraph& graph, const NodeFinder& names, const InlinedNames& inlined,
              const OptimizedFinder* optimized)
      : graph_(graph), names_(names), inlined_(inlined), optimized_(optimized) {
    for (std::size_t i = 0; i < graph.tree.rows.size(); ++i) rows_.emplace(graph.tree.rows[i].path, i);
  }

  // Returns the modules of each layer. Cost: linear in layers and nodes. For a layer without a node's name, the
  // neighbouring layers are searched as well.
  std::vector<LayerModules> place(const RuntimeProfile& profile) const;

  // Returns the node of the model at which to show the layer: the first that it lists, or the node whose name it has.
  std::optional<std::size_t> node_of(const Layer& layer) const;

  // Returns true if the layer's name or list leads to a node of the model.
  bool has_node_in_model(const Layer& layer) const;

 private:
  LayerModules by_name(const Layer& layer) const;
  LayerModules by_list(const Layer& layer) const;
  LayerModules by_module(const Layer& layer) const;
  std::vector<std::size_t> listed_nodes(const Layer& layer) const;
  std::vector<std::size_t> nodes_named(const std::vector<std::string>& names) const;

  const view::NodeGraph& graph_;
  const NodeFinder& names_;
  const InlinedNames& inlined_;
  const OptimizedFinder* optimized_;
  std::unordered_map<std::string_view, std::size_t> rows_;  // by qualified name
};

// Returns the row of the lowest common ancestor of `rows`, which must not be empty.
std::size_t row_around(const view::ModuleTree& tree, const std::vector<std::size_t>& rows);

}  // namespace whence::profile
