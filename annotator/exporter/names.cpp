#include "annotator/exporter/names.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "annotator/origin/scope_path.h"
#include "annotator/text/unique_names.h"
#include "schema/module_path.h"

namespace whence::exporter {

using graph::Graph;
using graph::GraphValueId;
using graph::no_value;

namespace {

class Namer {
 public:
  // Without a program, nodes get no names.
  explicit Namer(const Program* program) : program_(program) {
    if (program != nullptr) operations_ = operations(*program);
  }

  void name_graph(Graph& graph, bool outermost) {
    name_interface(graph, outermost);
    for (const graph::Initializer& initializer : graph.initializers) {
      if (initializer.parameter) names_.claim(graph.values[initializer.value].name);
    }
    for (const graph::Initializer& initializer : graph.initializers) {
      if (initializer.parameter) continue;
      std::string& name = graph.values[initializer.value].name;
      if (name.empty()) {
        if (program_ == nullptr) continue;
        name = path(initializer.origin) + "/constant";
      }
      name = names_.claim(name);
    }
    for (graph::GraphNode& node : graph.nodes) {
      if (!node.removed) name_node(graph, node);
    }
  }

 private:
  void name_interface(Graph& graph, bool outermost) {
    // Inputs and outputs of a body are not visible to users, so they get generic names.
    const std::string input = outermost ? "input" : "body_input";
    const std::string output = outermost ? "output" : "body_output";
    for (const GraphValueId id : graph.inputs) claim_interface_name(graph, id, input);
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      if (fixed(graph, graph.outputs[i])) continue;
      claim_interface_name(graph, graph.outputs[i],
                           graph.outputs.size() == 1 ? output : output + "_" + std::to_string(i));
    }
  }

  static bool fixed(const Graph& graph, GraphValueId id) {
    const graph::GraphValue& value = graph.values[id];
    return value.is_input || value.initializer >= 0 || value.captured != no_value;
  }

  void claim_interface_name(Graph& graph, GraphValueId id, const std::string& otherwise) {
    std::string& name = graph.values[id].name;
    name = names_.claim(name.empty() ? otherwise : name);
  }

  void name_node(Graph& graph, graph::GraphNode& node) {
    if (program_ != nullptr) name_results(graph, node);
    for_each_body(node, [&](Graph& body) { name_graph(body, false); });
  }

  void name_results(Graph& graph, graph::GraphNode& node) {
    node.name = node_names_.claim(path(node.origin) + "/" + node.op_type);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const GraphValueId id = node.outputs[i];
      if (id == no_value || std::ranges::find(graph.outputs, id) != graph.outputs.end()) continue;
      graph.values[id].name = names_.claim(node.name + "_output_" + std::to_string(i));
    }
  }

  const std::string& path(const origin::NodeOrigin& origin) {
    const ScopeId scope = origin::scope_of(origin, *program_, operations_);
    const auto [entry, is_new] = paths_.try_emplace(scope);
    if (is_new) entry->second = origin::scope_path(*program_, scope);
    return entry->second;
  }

  const Program* program_;
  std::vector<const Node*> operations_;
  std::unordered_map<ScopeId, std::string> paths_;
  text::UniqueNames names_, node_names_;
};

}  // namespace

void name_nodes(Graph& graph, const Program& program) { Namer(&program).name_graph(graph, true); }

void name_interface(Graph& graph) { Namer(nullptr).name_graph(graph, true); }

}  // namespace whence::exporter
