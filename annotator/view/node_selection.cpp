#include "annotator/view/node_selection.h"

#include <algorithm>
#include <map>
#include <set>

#include "annotator/text/path_glob.h"
#include "schema/module_path.h"
#include "schema/nearest_names.h"

namespace whence::view {

namespace {

[[noreturn]] void refuse_unknown(const std::string& kind, const std::string& pattern,
                                 const std::set<std::string>& known) {
  throw Error(Code::usage, "no " + kind + " of the file matches '" + pattern + "'",
              nearest_remedy(pattern, {known.begin(), known.end()}, "`whence show` lists modules and operators"),
              {.stage = "select"});
}

// Globs against modules, each pair looked at once.
class Globs {
 public:
  Globs(const std::vector<std::string>& globs, const std::set<std::string>& modules) : globs_(globs) {
    for (const std::string& glob : globs) {
      const bool any =
          std::ranges::any_of(modules, [&](const auto& module) { return text::matches_path(glob, module); });
      if (!any) refuse_unknown("module", glob, modules);
    }
  }

  // A glob that matches a module holds all modules in it; one that matches the root holds the root alone.
  bool hold(const std::string& module) {
    if (const auto known = known_.find(module); known != known_.end()) return known->second;
    const std::string outer(module_around(module));
    const bool held =
        std::ranges::any_of(globs_, [&](const std::string& glob) { return text::matches_path(glob, module); }) ||
        (!outer.empty() && hold(outer));
    return known_[module] = held;
  }

 private:
  const std::vector<std::string>& globs_;
  std::map<std::string, bool> known_;
};

SelectedNode selected_node(const onnx_file::OnnxNode& node, const metadata::Attribution& of, bool nested) {
  SelectedNode selected{std::string(node.name), std::string(node.op_type), of.module, of.confidence, nested, {}};
  for (const std::string_view output : node.outputs) {
    if (!output.empty()) selected.outputs.emplace_back(output);
  }
  return selected;
}

}  // namespace

std::vector<SelectedNode> select_nodes(const onnx_file::OnnxSummary& model, const NodeSelection& selection,
                                       const metadata::Recorded* recorded) {
  const std::vector<const onnx_file::OnnxNode*> nodes = onnx_file::all_nodes(model.graph);
  std::vector<metadata::Attribution> attributions;
  std::set<std::string> modules, op_types;
  for (const onnx_file::OnnxNode* node : nodes) {
    attributions.push_back(metadata::attribution_of(*node, recorded));
    op_types.emplace(node->op_type);
    if (!attributions.back().attributed()) continue;
    for (const std::string& module : attributions.back().modules) {
      for (std::string path = module; modules.insert(path).second && !path.empty();) {
        path.resize(module_around(path).size());
      }
    }
  }
  if (modules.empty()) {
    throw Error(Code::usage, "no node of the file says which module it belongs to", "`whence annotate` it first",
                {.stage = "select"});
  }
  for (const std::string& type : selection.op_types) {
    if (!op_types.contains(type)) refuse_unknown("operator", type, op_types);
  }
  Globs wanted(selection.modules, modules), unwanted(selection.excluded, modules);
  std::set<const onnx_file::OnnxNode*> outermost;
  for (const onnx_file::OnnxNode& node : model.graph.nodes) outermost.insert(&node);
  std::vector<SelectedNode> selected;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const metadata::Attribution& of = attributions[i];
    const std::string type(nodes[i]->op_type);
    const auto& types = selection.op_types;
    if (!types.empty() && std::ranges::find(types, type) == types.end()) continue;
    const auto in = [&](Globs& globs) {
      return of.attributed() && std::ranges::any_of(of.modules, [&](const auto& each) { return globs.hold(each); });
    };
    if ((!selection.modules.empty() && !in(wanted)) || in(unwanted)) continue;
    selected.push_back(selected_node(*nodes[i], of, !outermost.contains(nodes[i])));
  }
  return selected;
}

}  // namespace whence::view
