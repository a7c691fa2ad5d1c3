// NodeFinder: the nodes of the annotated model, found by the names that runtimes keep of them.
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

// The way in which the module of a layer became known.
enum class ProfileRule : std::uint8_t {
  none,     // it is not
  name,     // a node of the model has its name
  derived,  // its name begins with that of a node: "<name>/MatMulAddFusion"
  match,    // by matching the optimised model with the annotated one
  listed,   // the runtime lists the nodes that the layer holds
  between,  // from the layers before and after it
};
std::string_view name_of(ProfileRule rule);

struct FoundNode {
  ProfileRule rule = ProfileRule::none;
  std::optional<std::size_t> row = {};  // in the module tree
  std::string call = {};
  bool same_operator = true;
  std::vector<std::size_t> parts = {};  // rows of the modules that it was fused of, when there are several
};

class NodeFinder {
 public:
  // `age`: of the names that the runtime had of the nodes.
  NodeFinder(const view::NodeGraph& graph, metadata::NameAge age);

  bool known(std::string_view name) const { return nodes_.contains(name); }

  // A layer that has the name, or one that begins with it. Several nodes may carry a name; they say something when they
  // agree.
  FoundNode find(std::string_view name, std::string_view op_type) const;

  // The longest beginning that is a node's name. A number behind it alone tells another node: "/Add_1" is not "/Add".
  std::string_view origin_in(std::string_view name) const;

  // The numbers of the nodes (in the graph) that a name in a runtime's list stands for: a node's name, a tensor's that
  // a node makes, one that begins with a node's name, or a node's name that lost its dots. Empty: no node's.
  std::vector<std::size_t> listed(std::string_view name) const;

 private:
  using Numbers = std::unordered_map<std::string_view, std::vector<std::size_t>>;

  FoundNode found(std::string_view name, std::string_view op_type, ProfileRule rule) const;

  const view::NodeGraph& graph_;
  Numbers nodes_, makers_;  // by name; by tensor
  // By names that lost their dots. Made when one is asked for, which few runtimes write.
  mutable std::optional<std::unordered_map<std::string, std::vector<std::size_t>>> without_dots_;
};

// Finds the module of an operator by matching the optimised file, which has nodes of the same names, with the model.
class OptimizedFinder {
 public:
  // Throws Error(sidecar_mismatch) when `optimized` is of another model.
  OptimizedFinder(const onnx_file::OnnxSummary& optimized, const onnx_file::OnnxSummary& model,
                  const view::ModuleTree& tree, const Place& place);

  bool known(std::string_view name) const { return names_.contains(name); }
  FoundNode find(std::string_view name) const;

 private:
  std::vector<std::size_t> parts_of(const match::NodeMatch& match) const;

  match::Reference reference_;
  match::MatchReport matches_;
  std::unordered_map<std::string, std::size_t> rows_;
  std::unordered_map<std::string_view, int> names_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

}  // namespace whence::profile
