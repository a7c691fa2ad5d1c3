#include "annotator/export/names.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <vector>

#include "annotator/write/unique_names.h"
#include "schema/module_path.h"

namespace whence {

namespace {

// Where the name that stands at `at` begins: a number says nothing without the container that it counts in, so that
// "0" in "layer1.0" begins at "layer1".
std::size_t first_word(const std::string& name, std::size_t at) {
  while (at > 0 && std::isdigit(static_cast<unsigned char>(name[at])) != 0) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    if (name.find_first_not_of("0123456789", at) < end) break;
    const std::size_t before = name.rfind('.', at - 2);
    at = at < 2 || before == std::string::npos ? 0 : before + 1;
  }
  return at;
}

class Namer {
 public:
  explicit Namer(const Program& program) : program_(program), operations_(operations(program)) {}

  void name_graph(Graph& graph, bool outermost) {
    name_interface(graph, outermost);
    for (const Initializer& initializer : graph.initializers) {
      if (initializer.parameter) names_.claim(graph.values[initializer.value].name);
    }
    for (const Initializer& initializer : graph.initializers) {
      if (initializer.parameter) continue;
      std::string& name = graph.values[initializer.value].name;
      name = names_.claim(name.empty() ? path(initializer.origin) + "/constant" : name);
    }
    for (GraphNode& node : graph.nodes) {
      if (!node.removed) name_node(graph, node);
    }
  }

 private:
  void name_interface(Graph& graph, bool outermost) {
    // A body's inputs and outputs are nobody's interface; they are named after what they are.
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
    const GraphValue& value = graph.values[id];
    return value.is_input || value.initializer >= 0 || value.captured != no_value;
  }

  void claim_interface_name(Graph& graph, GraphValueId id, const std::string& otherwise) {
    std::string& name = graph.values[id].name;
    name = names_.claim(name.empty() ? otherwise : name);
  }

  void name_node(Graph& graph, GraphNode& node) {
    node.name = node_names_.claim(path(node.origin) + "/" + node.op_type);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const GraphValueId id = node.outputs[i];
      if (id == no_value || std::ranges::find(graph.outputs, id) != graph.outputs.end()) continue;
      graph.values[id].name = names_.claim(node.name + "_output_" + std::to_string(i));
    }
    for (Attribute& attribute : node.attributes) {
      if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) name_graph(**body, false);
    }
  }

  const std::string& path(const NodeOrigin& origin) {
    const ScopeId scope = scope_of(origin, program_, operations_);
    const auto [entry, is_new] = paths_.try_emplace(scope);
    if (is_new) entry->second = scope_path(program_, scope);
    return entry->second;
  }

  const Program& program_;
  std::vector<const Node*> operations_;
  std::unordered_map<ScopeId, std::string> paths_;
  UniqueNames names_, node_names_;
};

}  // namespace

ScopeId scope_of(const NodeOrigin& origin, const Program& program, const std::vector<const Node*>& operations) {
  if (origin.ops.empty()) return 0;
  if (origin.ops.size() == 1) return operations[origin.ops.front()]->origin.scope;
  std::vector<ScopeId> scopes;
  for (const std::int32_t op : origin.ops) scopes.push_back(operations[op]->origin.scope);
  std::ranges::sort(scopes);
  const auto repeated = std::ranges::unique(scopes);
  scopes.erase(repeated.begin(), repeated.end());
  return common_ancestor(program, scopes);
}

std::string scope_path(const std::vector<std::string>& modules) {
  if (modules.empty() || modules.back().empty()) return "";
  const std::string& inner = modules.back();
  std::vector<std::size_t> cuts;  // lengths of the called modules' names on the way to `inner`
  for (std::size_t i = 0; i + 1 < modules.size(); ++i) {
    if (!modules[i].empty() && modules[i] != inner && at_or_below(inner, modules[i])) cuts.push_back(modules[i].size());
  }
  cuts.push_back(inner.size());
  std::ranges::sort(cuts);
  std::string path;
  std::size_t start = 0;
  for (const std::size_t cut : cuts) {
    if (cut <= start) continue;  // one module called within itself
    const std::size_t first = start == 0 ? 0 : start + 1;
    path += "/" + inner.substr(first_word(inner, first), cut - first_word(inner, first));
    start = cut;
  }
  return path;
}

std::string scope_path(const Program& program, ScopeId scope) {
  std::vector<std::string> modules;
  for (; scope != none_id; scope = program.scopes[scope].parent) modules.push_back(program.module_path(scope));
  std::ranges::reverse(modules);
  return scope_path(modules);
}

void name_nodes(Graph& graph, const Program& program) { Namer(program).name_graph(graph, true); }

}  // namespace whence
