#include "annotator/onnx_file/captured_regions.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "annotator/origin/common_module.h"
#include "annotator/origin/keys/torch.h"
#include "annotator/origin/module_renames.h"
#include "annotator/text/python_list.h"
#include "schema/module_path.h"

namespace whence::onnx_file {
namespace {

namespace keys = origin::keys;
using keys::captured_root;

// A node of a captured graph.
struct CapturedNode {
  OnnxNode* node = nullptr;
  std::vector<std::string> modules;  // as stated, without the captured root
  std::string fx_name;               // the name of its fx node
  std::set<std::string> fx_inputs;   // names that the fx node reads
  std::string identity;              // equal for the nodes of all calls that were written for the same fx node
  bool is_repeated = false;          // certainly a node of several calls
  std::size_t call = 0;

  const std::string& module() const { return modules.back(); }
};

// Returns the modules below the captured root, the first being the root.
std::vector<std::string> captured_modules(std::vector<std::string> scopes) {
  std::vector<std::string> modules;
  for (std::string& scope : scopes) {
    if (scope == captured_root) continue;
    if (scope.starts_with(captured_root) && scope[captured_root.size()] == '.') {
      scope.erase(0, captured_root.size() + 1);
    }
    modules.push_back(std::move(scope));
  }
  return modules;
}

// Returns "x" and "w" for "%linear : [num_users=1] = call_function[target=...](args = (%x, %w), kwargs = {})".
std::set<std::string> names_read(std::string_view fx_line) {
  std::set<std::string> names;
  for (std::size_t at = fx_line.find("](args"); (at = fx_line.find('%', at)) != fx_line.npos;) {
    const std::size_t end = std::min(fx_line.find_first_of(",)]} ", ++at), fx_line.size());
    names.emplace(fx_line.substr(at, end - at));
  }
  return names;
}

std::optional<CapturedNode> captured_node(OnnxNode& node) {
  const OnnxProperties metadata = node.metadata;
  const auto text = find_property(metadata, keys::name_scopes);
  if (!text || !states_captured_modules(keys::name_scopes, *text)) return std::nullopt;
  auto scopes = text::parse_python_list(*text);
  if (!scopes || scopes->size() < 2) return std::nullopt;
  CapturedNode captured;
  captured.node = &node;
  captured.fx_name = std::move(scopes->back());
  scopes->pop_back();
  captured.modules = captured_modules(std::move(*scopes));
  if (captured.modules.empty()) return std::nullopt;
  captured.fx_inputs = names_read(find_property(metadata, keys::fx_node).value_or(""));
  captured.identity = std::string(node.op_type) + " " + std::string(*text);
  return captured;
}

class CapturedCalls {
 public:
  // Adds the captured nodes of a graph and of the graphs in its nodes. PyTorch captures branches and loop bodies, too,
  // so their nodes may be those of a single call; in the main graph, it inlines a region that is called once.
  void add(OnnxGraph& graph, bool is_body = false) {
    for (const OnnxTensor& tensor : graph.initializers) parameters_.insert(tensor.name);
    std::unordered_map<std::string_view, std::size_t> producers;
    const std::size_t first = nodes_.size();
    for (OnnxNode& node : graph.nodes) {
      auto captured = captured_node(node);
      if (!captured) continue;
      captured->call = nodes_.size();
      captured->is_repeated = !is_body;
      for (const std::string_view output : node.outputs) producers.emplace(output, nodes_.size());
      nodes_.push_back(std::move(*captured));
    }
    for (std::size_t i = first; i < nodes_.size(); ++i) join(i, producers);
    for (OnnxNode& node : graph.nodes) {
      for (OnnxGraph& body : node.subgraphs) add(body, /*is_body=*/true);
    }
  }

  void resolve(std::deque<CapturedModules>& results) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) nodes_[i].call = call_of(i);
    std::map<std::string_view, std::set<std::size_t>> calls;  // by identity
    for (const CapturedNode& node : nodes_) {
      calls[node.identity].insert(node.call);
      read_parameters(node);
    }
    for (CapturedNode& node : nodes_) {
      CapturedModules modules = modules_of(node, node.is_repeated || calls[node.identity].size() > 1);
      if (modules.paths != node.modules) node.node->captured = &results.emplace_back(std::move(modules));
    }
  }

 private:
  std::size_t call_of(std::size_t node) {
    while (nodes_[node].call != node) node = nodes_[node].call = nodes_[nodes_[node].call].call;
    return node;
  }

  void join(std::size_t node, const std::unordered_map<std::string_view, std::size_t>& producers) {
    for (const std::string_view input : nodes_[node].node->inputs) {
      const auto producer = producers.find(input);
      if (producer == producers.end()) continue;
      const CapturedNode& from = nodes_[producer->second];
      // Different operators of one fx node. Equal ones may be those of two calls, such as sums along a residual path.
      const bool same_fx_node = from.fx_name == nodes_[node].fx_name && from.identity != nodes_[node].identity;
      if (!same_fx_node && !nodes_[node].fx_inputs.contains(from.fx_name)) continue;
      const std::size_t a = call_of(node), b = call_of(producer->second);
      nodes_[std::max(a, b)].call = std::min(a, b);
    }
  }

  // A parameter of a module inside, which a function of the module reads, is left out: it is deeper.
  void read_parameters(const CapturedNode& node) {
    const auto depth = [](std::string_view path) { return std::ranges::count(path, '.'); };
    for (const std::string_view input : node.node->inputs) {
      if (!parameters_.contains(input) || input.find('.') == input.npos) continue;
      const std::string_view owner = module_around(input);
      if (depth(owner) != depth(node.module())) continue;
      renames_[node.call].add(node.module(), owner);
      all_renames_.add(node.module(), owner);
    }
  }

  // Equal tensors may be stored once, so the parameters that a call reads may be those of several modules.
  static bool contradicted(const origin::ModuleRenames& renames, std::string_view module) {
    for (; !module.empty(); module = module_around(module)) {
      if (renames.all(module).size() > 1) return true;
    }
    return false;
  }

  CapturedModules modules_of(const CapturedNode& node, bool repeated) {
    const origin::ModuleRenames& renames = renames_[node.call];
    CapturedModules result;
    const bool unclear = contradicted(renames, node.module());
    const auto module = unclear ? std::nullopt : renames.at(node.module());
    if (module || (!repeated && !unclear)) {
      for (const std::string& stated : node.modules) {
        const auto here = stated.empty() || !module ? stated : renames.at(stated).value_or("");
        if (stated.empty() || !here.empty()) result.paths.push_back(here);
      }
      return result;
    }
    // Any call may be this one.
    std::vector<std::string> candidates = {node.module()};
    for (std::string_view around = node.module(); !around.empty(); around = module_around(around)) {
      const std::set<std::string> others = all_renames_.all(around);
      candidates.insert(candidates.end(), others.begin(), others.end());
    }
    const std::string around = candidates.size() == 1 ? std::string() : origin::common_module(candidates);
    result.certain = false;
    result.paths = {""};
    if (!around.empty()) result.paths.push_back(around);
    return result;
  }

  std::vector<CapturedNode> nodes_;
  std::set<std::string_view> parameters_;
  std::map<std::size_t, origin::ModuleRenames> renames_;  // of each call
  origin::ModuleRenames all_renames_;
};

}  // namespace

bool states_captured_modules(std::string_view key, std::string_view value) {
  return key == keys::name_scopes && value.find("_export_root.") != value.npos;
}

void find_modules_of_calls(OnnxGraph& graph, std::deque<CapturedModules>& modules) {
  CapturedCalls calls;
  calls.add(graph);
  calls.resolve(modules);
}

}  // namespace whence::onnx_file
