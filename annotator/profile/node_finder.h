// NodeFinder: finds nodes of the annotated model by the names that runtimes keep.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "annotator/match/match.h"
#include "annotator/metadata/node_names.h"
#include "annotator/view/node_graph.h"

namespace whence::profile {

// The rule that found the module of a layer.
enum class ProfileRule : std::uint8_t {
  none,     // the module is unknown
  name,     // a node of the model has the layer's name
  derived,  // the layer's name begins with a node's name: "<name>/MatMulAddFusion"
  match,    // the optimised model was matched with the annotated one
  listed,   // the runtime lists the layer's nodes
  between,  // inferred from the layers before and after it
};
std::string_view name_of(ProfileRule rule);

struct FoundNode {
  ProfileRule rule = ProfileRule::none;
  std::optional<std::size_t> row = {};  // in the module tree
  std::string call = {};
  bool same_operator = true;
  std::vector<std::size_t> parts = {};  // rows of the modules that it was fused from, if there are several
};

class NodeFinder {
 public:
  // `age`: whether the runtime saw the nodes' present or original names.
  NodeFinder(const view::NodeGraph& graph, metadata::NameAge age);

  bool known(std::string_view name) const { return nodes_.contains(name); }

  // Finds the node with the layer's name, or the node whose name begins it. If several nodes have the name, they must
  // have the same module.
  FoundNode find(std::string_view name, std::string_view op_type) const;

  // Returns the longest prefix that is a node's name. A prefix followed only by a number is another node's name:
  // "/Add_1" is not "/Add".
  std::string_view origin_in(std::string_view name) const;

  // Returns the numbers (in the graph) of the nodes that a name in a runtime's list refers to: a node's name, the name
  // of its output, a name that begins with a node's name, or a node's name with underscores for dots. Empty: no node.
  std::vector<std::size_t> listed(std::string_view name) const;

 private:
  using Numbers = std::unordered_map<std::string_view, std::vector<std::size_t>>;

  FoundNode found(std::string_view name, std::string_view op_type, ProfileRule rule) const;

  const view::NodeGraph& graph_;
  Numbers nodes_, makers_;  // by name; by tensor
  // By names with underscores for dots. Filled on first use, as few runtimes write such names.
  mutable std::optional<std::unordered_map<std::string, std::vector<std::size_t>>> without_dots_;
};

// Finds the module of an operator by matching the optimised file, which has the operator's name, with the model.
class OptimizedFinder {
 public:
  // Throws Error(sidecar_mismatch) if `optimized` was made from another model.
  OptimizedFinder(const onnx_file::OnnxSummary& optimized, const onnx_file::OnnxSummary& model,
                  const view::ModuleTree& tree, const Place& place);

  bool known(std::string_view name) const { return names_.contains(name); }
  FoundNode find(std::string_view name) const;

 private:
  std::vector<std::size_t> parts_of(const match::NodeMatch& match) const;
  // Returns the row of the module of the main operation of an operator that replaced the matched nodes.
  std::optional<std::size_t> row_of_main(const match::NodeMatch& match, std::string_view op_type) const;

  match::Reference reference_;
  match::MatchReport matches_;
  std::unordered_map<std::string, std::size_t> rows_;
  std::unordered_map<std::string_view, int> names_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
  std::vector<const onnx_file::OnnxNode*> nodes_, model_nodes_;  // of the optimised file and of the model
};

}  // namespace whence::profile
