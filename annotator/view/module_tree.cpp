#include "annotator/view/module_tree.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "annotator/metadata/attribution.h"
#include "annotator/origin/keys.h"
#include "annotator/text/path_glob.h"
#include "annotator/text/python_list.h"
#include "annotator/view/parameters_read.h"

namespace whence::view {

namespace keys = origin::keys;
using onnx_file::OnnxNode;

namespace {

// Rows by path while they are being made; put into depth-first order at the end.
class TreeBuilder {
 public:
  TreeBuilder() { row(""); }

  // The row of a module; made, with every module above it, when it is new: each prefix of a qualified name is one.
  std::size_t row(const std::string& path) {
    if (const auto found = by_path_.find(path); found != by_path_.end()) return found->second;
    std::optional<std::size_t> parent;
    if (!path.empty()) {
      const std::size_t dot = path.rfind('.');
      parent = row(dot == std::string::npos ? "" : path.substr(0, dot));
    }
    const std::size_t index = tree_.rows.size();
    ModuleRow made;
    made.path = path;
    made.parent = parent;
    made.level = parent ? tree_.rows[*parent].level + 1 : 0;
    tree_.rows.push_back(std::move(made));
    if (parent) tree_.rows[*parent].children.push_back(index);
    by_path_.emplace(path, index);
    return index;
  }

  ModuleRow& operator[](std::size_t index) { return tree_.rows[index]; }
  bool has(const std::string& path) const { return by_path_.count(path) > 0; }

  // Counts one operation or node for all of its modules, and once for every module above them.
  void count(const std::vector<std::string>& modules, const std::string& type) {
    std::set<std::size_t> enclosing;
    for (const std::string& module : modules) {
      const std::size_t own = row(module);
      ++tree_.rows[own].own;
      ++tree_.rows[own].operators[type];
      for (std::optional<std::size_t> at = own; at; at = tree_.rows[*at].parent) enclosing.insert(*at);
    }
    for (const std::size_t index : enclosing) ++tree_.rows[index].total;
    ++tree_.count;
    if (modules.empty()) ++tree_.unattributed;
  }

  void add_modules(const Program& program) {
    for (const Module& module : program.modules) {
      ModuleRow& to = tree_.rows[row(module.path)];
      to.type = module.type;
      to.aliases = module.aliases;
      to.calls = 0;
      to.parameters = module.parameters_total;
      to.trainable = module.parameters_trainable;
    }
    for (const Scope& scope : program.scopes) ++*tree_.rows[row(program.modules[scope.module].path)].calls;
  }

  ModuleTree finish() {
    ModuleTree ordered;
    ordered.count = tree_.count;
    ordered.unattributed = tree_.unattributed;
    append(0, std::nullopt, ordered);
    return ordered;
  }

 private:
  void append(std::size_t from, std::optional<std::size_t> parent, ModuleTree& to) {
    const std::size_t index = to.rows.size();
    const std::vector<std::size_t> children = std::move(tree_.rows[from].children);
    to.rows.push_back(std::move(tree_.rows[from]));
    to.rows[index].parent = parent;
    to.rows[index].children.clear();
    if (parent) to.rows[*parent].children.push_back(index);
    for (const std::size_t child : children) append(child, index, to);
  }

  ModuleTree tree_;
  std::unordered_map<std::string, std::size_t> by_path_;
};

// PyTorch's keys name the class of every module on the way down to a node.
void add_types(const OnnxNode& node, TreeBuilder& tree) {
  const auto scopes = text::parse_python_list(onnx_file::find_property(node.metadata, keys::name_scopes).value_or(""));
  const auto classes =
      text::parse_python_list(onnx_file::find_property(node.metadata, keys::class_hierarchy).value_or(""));
  if (!scopes || !classes || scopes->size() != classes->size()) return;
  for (std::size_t i = 0; i + 1 < scopes->size(); ++i) {  // the last entry is the node itself
    if (tree.has((*scopes)[i])) tree[tree.row((*scopes)[i])].type = (*classes)[i];
  }
}

// Each parameter counts once for every module at or below which a node reads it.
void add_parameters(const onnx_file::OnnxGraph& graph, const std::vector<ParameterReader>& readers, TreeBuilder& tree) {
  for (const ReadParameter& parameter : parameters_read(graph, readers)) {
    std::set<std::size_t> rows;
    for (const std::string& module : parameter.modules) {
      for (std::optional<std::size_t> at = tree.row(module); at; at = tree[*at].parent) rows.insert(*at);
    }
    for (const std::size_t row : rows) tree[row].parameters += parameter.elements;
  }
}

}  // namespace

const ModuleRow* ModuleTree::find(std::string_view path) const {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const ModuleRow& row) { return row.path == path; });
  return found == rows.end() ? nullptr : &*found;
}

ModuleTree tree_of(const Program& program) {
  TreeBuilder builder;
  builder.add_modules(program);
  for (const Node* node : operations(program)) builder.count({program.module_path(node->origin.scope)}, node->target);
  return builder.finish();
}

ModuleTree tree_of(const onnx_file::OnnxSummary& model, const Program* program) {
  TreeBuilder builder;
  std::optional<metadata::Recorded> recorded;
  if (program != nullptr) {
    builder.add_modules(*program);
    if (metadata::belongs_to(model, *program)) recorded.emplace(*program);
  }
  std::map<std::string, std::set<std::string>> calls;
  const std::vector<const OnnxNode*> nodes = onnx_file::all_nodes(model.graph);
  std::vector<metadata::Attribution> attributions;
  std::vector<ParameterReader> readers;
  attributions.reserve(nodes.size());
  for (const OnnxNode* node : nodes) {
    const metadata::Attribution& attribution =
        attributions.emplace_back(metadata::attribution_of(*node, recorded ? &*recorded : nullptr));
    readers.push_back({node, &attribution});
    builder.count(attribution.modules, std::string(node->op_type));
    if (!attribution.call.empty()) calls[attribution.module].insert(attribution.call);
  }
  if (program == nullptr) {
    for (const OnnxNode* node : nodes) add_types(*node, builder);
    add_parameters(model.graph, readers, builder);
    for (const auto& [module, numbers] : calls) {
      builder[builder.row(module)].calls = static_cast<std::int64_t>(numbers.size());
    }
  }
  ModuleTree tree = builder.finish();
  tree.of_nodes = true;
  return tree;
}

namespace {

void append_shown(const ModuleTree& tree, std::size_t row, int indent, const std::optional<int>& depth,
                  std::vector<ShownRow>& into) {
  into.push_back({row, indent});
  if (depth && indent >= *depth) return;
  for (const std::size_t child : tree.rows[row].children) append_shown(tree, child, indent + 1, depth, into);
}

void append_selected(const ModuleTree& tree, std::size_t row, const TreeSelection& selection,
                     std::vector<ShownRow>& into) {
  if (text::matches_path(selection.select, tree.rows[row].path)) {
    append_shown(tree, row, 0, selection.depth, into);
    return;
  }
  for (const std::size_t child : tree.rows[row].children) append_selected(tree, child, selection, into);
}

}  // namespace

std::vector<ShownRow> select_rows(const ModuleTree& tree, const TreeSelection& selection) {
  std::vector<ShownRow> shown;
  if (selection.select.empty()) {
    append_shown(tree, 0, 0, selection.depth, shown);
  } else {
    append_selected(tree, 0, selection, shown);
  }
  return shown;
}

}  // namespace whence::view
