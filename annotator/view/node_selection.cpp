#include "annotator/view/node_selection.h"

#include <algorithm>
#include <set>

#include "annotator/text/patterns.h"
#include "annotator/view/module_globs.h"
#include "annotator/view/module_tree.h"
#include "schema/module_path.h"

namespace whence::view {

namespace {

SelectedNode selected_node(const onnx_file::OnnxNode& node, const metadata::Attribution& of, bool nested) {
  SelectedNode selected{std::string(node.name),
                        std::string(node.op_type),
                        of.module,
                        of.modules,
                        of.primary,
                        of.confidence,
                        nested,
                        {},
                        0};
  for (const std::string_view output : node.outputs) {
    if (!output.empty()) selected.outputs.emplace_back(output);
  }
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].empty()) selected.inputs = i + 1;
  }
  return selected;
}

// Returns the modules of the selected classes.
std::set<std::string> modules_of_types(const onnx_file::OnnxSummary& model, const NodeSelection& selection,
                                       const metadata::Recorded* recorded) {
  std::set<std::string> chosen, names;
  if (selection.types.empty()) return chosen;
  const auto types = module_types(model, recorded == nullptr ? nullptr : &recorded->program());
  for (const auto& [module, type] : types) names.emplace(last_segment(type));
  for (const std::string& requested : selection.types) {
    bool any = false;
    for (const auto& [module, type] : types) {
      if (type != requested && last_segment(type) != requested) continue;
      chosen.insert(module);
      any = true;
    }
    if (!any) refuse_unknown("class", requested, names, "select");
  }
  return chosen;
}

// Returns the selected operators among those of the nodes; all of them if the selection names none.
std::set<std::string, std::less<>> chosen_operators(const std::vector<const onnx_file::OnnxNode*>& nodes,
                                                    const NodeSelection& selection) {
  std::set<std::string, std::less<>> chosen;
  for (const onnx_file::OnnxNode* node : nodes) {
    if (!chosen.contains(node->op_type)) chosen.emplace(node->op_type);
  }
  if (selection.op_types.empty()) return chosen;
  const text::Patterns patterns = text::Patterns::of_names(selection.op_types);
  std::erase_if(chosen, [&](const std::string& type) { return !patterns.match(type); });
  return chosen;
}

ModuleGlobs selected_modules(const onnx_file::OnnxSummary& model, const NodeSelection& selection,
                             const std::set<std::string>& modules, const metadata::Recorded* recorded) {
  ModuleGlobs included(selection.modules, modules, "select");
  included.add(modules_of_types(model, selection, recorded));
  return included;
}

}  // namespace

std::vector<SelectedNode> select_nodes(const onnx_file::OnnxSummary& model, const NodeSelection& selection,
                                       const metadata::Recorded* recorded) {
  const std::vector<const onnx_file::OnnxNode*> nodes = onnx_file::all_nodes(model.graph);
  std::vector<metadata::Attribution> attributions;
  for (const onnx_file::OnnxNode* node : nodes) attributions.push_back(metadata::attribution_of(*node, recorded));
  const std::set<std::string> modules = modules_of(attributions, "select");
  const std::set<std::string, std::less<>> operators = chosen_operators(nodes, selection);
  if (operators.empty()) {
    const auto known = chosen_operators(nodes, {});
    refuse_unknown("operator", selection.op_types.front(), {known.begin(), known.end()}, "select");
  }
  ModuleGlobs included = selected_modules(model, selection, modules, recorded);
  ModuleGlobs excluded(selection.excluded, modules, "select");
  std::set<const onnx_file::OnnxNode*> outermost;
  for (const onnx_file::OnnxNode& node : model.graph.nodes) outermost.insert(&node);
  std::vector<SelectedNode> selected;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const metadata::Attribution& of = attributions[i];
    if (!operators.contains(nodes[i]->op_type)) continue;
    if (!selection.all_modules() && !included.hold_any(of)) continue;
    if (of.attributed() && excluded.hold(of.primary)) continue;
    selected.push_back(selected_node(*nodes[i], of, !outermost.contains(nodes[i])));
  }
  return selected;
}

std::int64_t count_possible_nodes(const onnx_file::OnnxSummary& model, const NodeSelection& selection,
                                  const metadata::Recorded* recorded) {
  if (selection.all_modules()) return 0;
  const std::vector<const onnx_file::OnnxNode*> nodes = onnx_file::all_nodes(model.graph);
  std::vector<metadata::Attribution> attributions;
  for (const onnx_file::OnnxNode* node : nodes) attributions.push_back(metadata::attribution_of(*node, recorded));
  const std::set<std::string> modules = modules_of(attributions, "select");
  ModuleGlobs included = selected_modules(model, selection, modules, recorded);
  std::set<std::string> around = {""};
  for (const std::string& module : modules) {
    if (!included.hold(module)) continue;
    for (std::string path = module; !path.empty();) {
      path.resize(module_around(path).size());
      around.insert(path);
    }
  }
  const std::set<std::string, std::less<>> operators = chosen_operators(nodes, selection);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!operators.contains(nodes[i]->op_type)) continue;
    const metadata::Attribution& of = attributions[i];
    const bool ancestor =
        of.confidence == origin::Confidence::ancestor && !included.hold_any(of) && around.contains(of.module);
    count += ancestor || !of.attributed() ? 1 : 0;
  }
  return count;
}

}  // namespace whence::view
