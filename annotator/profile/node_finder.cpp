#include "annotator/profile/node_finder.h"

#include <algorithm>
#include <set>

#include "annotator/match/file_structure.h"
#include "annotator/metadata/main_module.h"

namespace whence::profile {

using view::PlacedNode;

namespace {

std::string with_underscores(std::string_view name) {
  std::string changed(name);
  std::ranges::replace(changed, '.', '_');
  return changed;
}

}  // namespace

std::string_view name_of(ProfileRule rule) {
  constexpr std::string_view names[] = {"none", "name", "derived", "match", "listed", "between", "module"};
  return names[static_cast<std::size_t>(rule)];
}

NodeFinder::NodeFinder(const view::NodeGraph& graph, metadata::NameAge age) : graph_(graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const onnx_file::OnnxNode& node = *graph.nodes[i].node;
    for (const std::string_view output : node.outputs) {
      if (!output.empty()) makers_[output].push_back(i);
    }
    const std::string_view name = metadata::name_of(node, age);
    if (name.empty()) continue;
    nodes_[name].push_back(i);
  }
}

FoundNode NodeFinder::find(std::string_view name, std::string_view op_type) const {
  if (known(name)) return found(name, op_type, ProfileRule::name);
  const std::string_view origin = origin_in(name);
  return origin.empty() ? FoundNode{} : found(origin, op_type, ProfileRule::derived);
}

std::string_view NodeFinder::origin_in(std::string_view name) const {
  return metadata::known_prefix(name, [&](std::string_view each) { return known(each); });
}

std::vector<std::size_t> NodeFinder::listed(std::string_view name) const {
  if (const auto node = nodes_.find(name); node != nodes_.end()) return node->second;
  if (const auto maker = makers_.find(name); maker != makers_.end()) return maker->second;
  if (const std::string_view origin = origin_in(name); !origin.empty()) return nodes_.at(origin);
  if (!without_dots_) {
    without_dots_.emplace();
    for (const auto& [known, numbers] : nodes_) {
      auto& to = (*without_dots_)[with_underscores(known)];
      to.insert(to.end(), numbers.begin(), numbers.end());
    }
    for (auto& [changed, numbers] : *without_dots_) std::ranges::sort(numbers);
  }
  const auto changed = without_dots_->find(std::string(name));
  return changed == without_dots_->end() ? std::vector<std::size_t>() : changed->second;
}

FoundNode NodeFinder::found(std::string_view name, std::string_view op_type, ProfileRule rule) const {
  const std::vector<std::size_t>& all = nodes_.at(name);
  const PlacedNode& first = graph_.nodes[all.front()];
  const bool agree = std::ranges::all_of(all, [&](std::size_t each) { return graph_.nodes[each].row == first.row; });
  if (!agree || !first.row) return {};
  if (all.size() > 1) return {rule, first.row, "", first.node->op_type == op_type};
  const metadata::Attribution origin = graph_.attribution_of(first);
  FoundNode found{rule, first.row, origin.call, first.node->op_type == op_type};
  if (origin.modules.size() > 1) {
    for (const std::string& module : origin.modules) found.parts.push_back(graph_.tree.find(module).value_or(0));
  }
  return found;
}

OptimizedFinder::OptimizedFinder(const onnx_file::OnnxSummary& optimized, const onnx_file::OnnxSummary& model,
                                 const view::ModuleTree& tree, const Place& place)
    : reference_(match::make_reference(model)),
      nodes_(match::nodes_with_functions(optimized)),
      model_nodes_(match::nodes_with_functions(model)) {
  for (std::size_t i = 0; i < tree.rows.size(); ++i) rows_.emplace(tree.rows[i].path, i);
  for (const onnx_file::OnnxNode* node : nodes_) ++names_[node->name];
  matches_ = match::match_model(optimized, reference_);
  if (matches_.fit.of_another_model()) {
    throw Error(Code::sidecar_mismatch, "the optimised file and the annotated file are of different models",
                "pass the file that the profiled session saved (SessionOptions.optimized_model_filepath)", place);
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (names_[nodes_[i]->name] == 1) by_name_.emplace(nodes_[i]->name, i);
  }
}

FoundNode OptimizedFinder::find(std::string_view name) const {
  const auto node = by_name_.find(name);
  if (name.empty() || node == by_name_.end()) return {};
  const match::NodeMatch& match = matches_.nodes[node->second];
  if (!match.scope.exists() || match.confidence == origin::Confidence::unattributed) return {};
  const origin::ModuleCall& scope = reference_.scopes[match.scope];
  const auto row = rows_.find(scope.path);
  if (row == rows_.end()) return {};
  FoundNode found{ProfileRule::match, row->second, std::to_string(scope.call), true, parts_of(match)};
  if (!found.parts.empty()) {
    if (const auto main = row_of_main(match, nodes_[node->second]->op_type)) found.row = main;
  }
  return found;
}

std::optional<std::size_t> OptimizedFinder::row_of_main(const match::NodeMatch& match, std::string_view op_type) const {
  std::vector<std::string_view> operators;
  std::vector<std::string> modules;
  for (const match::UnitIndex unit : match.units) {
    const onnx_file::OnnxNode& replaced = *model_nodes_[static_cast<std::size_t>(unit.number())];
    operators.push_back(replaced.op_type);
    modules.push_back(metadata::attribution_of(replaced, nullptr).primary);
  }
  const auto row = rows_.find(metadata::main_module(op_type, operators, modules));
  return row == rows_.end() ? std::nullopt : std::optional(row->second);
}

std::vector<std::size_t> OptimizedFinder::parts_of(const match::NodeMatch& match) const {
  std::set<std::size_t> rows;
  if (match.shared) return {};
  for (const match::UnitIndex unit : match.units) {
    const match::ScopeIndex scope = reference_.units[unit].scope;
    if (!scope.exists()) continue;
    if (const auto row = rows_.find(reference_.scopes[scope].path); row != rows_.end()) rows.insert(row->second);
  }
  if (rows.size() < 2) return {};
  return {rows.begin(), rows.end()};
}

}  // namespace whence::profile
