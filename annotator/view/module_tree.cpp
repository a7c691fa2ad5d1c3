#include "annotator/view/module_tree.h"

#include <set>

#include "annotator/metadata/attribution.h"
#include "annotator/metadata/call_path.h"
#include "annotator/onnx_file/walk.h"
#include "annotator/text/patterns.h"
#include "annotator/view/parameters_read.h"
#include "schema/element_count.h"

namespace whence::view {

using onnx_file::OnnxNode;

namespace {

// Counts an operation or node for each of its modules, and once for every enclosing module.
void count(ModuleTree& tree, const std::vector<std::string>& modules, const std::string& type) {
  for (const std::string& module : modules) {
    ModuleRow& row = tree.rows[tree.add(module)];
    ++row.own;
    ++row.operators[type];
  }
  for (const std::size_t row : tree.around(modules)) ++tree.rows[row].total;
  ++tree.count;
  if (modules.empty()) ++tree.unattributed;
}

void add_modules(const Program& program, ModuleTree& tree) {
  for (const Module& module : program.modules) {
    ModuleRow& to = tree.rows[tree.add(module.path)];
    to.type = module.type;
    to.aliases = module.aliases;
    to.calls = 0;
    to.parameters = module.parameters_total;
    to.trainable = module.parameters_trainable;
  }
  for (const Scope& scope : program.scopes) ++*tree.rows[tree.add(program.modules[scope.module].path)].calls;
}

// Calls visit(module, class) for every module around a node, from PyTorch's keys.
void each_type(const OnnxNode& node, const auto& visit) {
  for (const metadata::CalledModule& module : metadata::exporter_scopes(node).modules) {
    if (!module.type.empty()) visit(module.path, module.type);
  }
}

void add_types(const OnnxNode& node, ModuleTree& tree) {
  each_type(node, [&](const std::string& module, const std::string& type) {
    if (const auto row = tree.find(module)) tree.rows[*row].type = type;
  });
}

// Counts each parameter once for each module whose nodes read it, and once for every enclosing module.
void add_parameters(const ParametersRead& parameters, ModuleTree& tree) {
  parameters.each([&](const ReadParameter& parameter) {
    for (const std::size_t row : tree.around(parameter.modules)) {
      tree.rows[row].parameters = saturated_sum(tree.rows[row].parameters, parameter.elements);
    }
  });
}

}  // namespace

ModuleTree tree_of(const Program& program) {
  ModuleTree tree;
  add_modules(program, tree);
  for (const Node* node : operations(program)) count(tree, {program.module_path(node->origin.scope)}, node->target);
  tree.order_depth_first();
  return tree;
}

ModuleTree tree_of(const onnx_file::OnnxSummary& model, const Program* program) {
  ModuleTree tree;
  tree.of_nodes = true;
  std::optional<metadata::Recorded> recorded;
  if (program != nullptr) {
    add_modules(*program, tree);
    if (metadata::belongs_to(model, *program)) recorded.emplace(*program);
  }
  std::map<std::string, std::set<std::string>> calls;
  ParametersRead parameters(model.graph);
  onnx_file::walk_nodes(model.graph.nodes, [&](const OnnxNode& node) {
    const metadata::Attribution attribution = metadata::attribution_of(node, recorded ? &*recorded : nullptr);
    count(tree, attribution.modules, std::string(node.op_type));
    if (attribution.by_exporter) ++tree.by_exporter;
    if (program != nullptr) return;
    if (!attribution.call.empty()) calls[attribution.module].insert(attribution.call);
    parameters.add(node, attribution);
  });
  if (program == nullptr) {
    tree.of_weights = true;
    onnx_file::walk_nodes(model.graph.nodes, [&](const OnnxNode& node) { add_types(node, tree); });
    add_parameters(parameters, tree);
    for (const auto& [module, numbers] : calls) {
      tree.rows[tree.add(module)].calls = static_cast<std::int64_t>(numbers.size());
    }
  }
  tree.order_depth_first();
  return tree;
}

std::map<std::string, std::string> module_types(const onnx_file::OnnxSummary& model, const Program* program) {
  std::map<std::string, std::string> types;
  if (program != nullptr) {
    for (const Module& module : program->modules) types[module.path] = module.type;
  }
  for (const OnnxNode* node : onnx_file::all_nodes(model.graph)) {
    each_type(*node, [&](const std::string& module, const std::string& type) { types[module] = type; });
  }
  return types;
}

namespace {

void append_shown(const ModuleTree& tree, std::size_t row, int indent, const std::optional<int>& depth,
                  std::vector<ShownRow>& into) {
  into.push_back({row, indent});
  if (depth && indent >= *depth) return;
  for (const std::size_t child : tree.rows[row].children) append_shown(tree, child, indent + 1, depth, into);
}

void append_selected(const ModuleTree& tree, std::size_t row, const text::Patterns& select,
                     const std::optional<int>& depth, std::vector<ShownRow>& into) {
  if (select.match(tree.rows[row].path)) {
    append_shown(tree, row, 0, depth, into);
    return;
  }
  for (const std::size_t child : tree.rows[row].children) append_selected(tree, child, select, depth, into);
}

}  // namespace

std::vector<ShownRow> select_rows(const ModuleTree& tree, const TreeSelection& selection) {
  std::vector<ShownRow> shown;
  if (selection.select.empty()) {
    append_shown(tree, 0, 0, selection.depth, shown);
  } else {
    append_selected(tree, 0, text::Patterns::of_paths({selection.select}), selection.depth, shown);
  }
  return shown;
}

}  // namespace whence::view
