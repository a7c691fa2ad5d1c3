#include "annotator/view/diff.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>

#include "annotator/operators/onnx_operators.h"
#include "annotator/origin/module_tree.h"
#include "annotator/view/diff_pairs.h"
#include "annotator/view/node_changes.h"
#include "annotator/view/parameters_read.h"
#include "schema/files/files.h"
#include "schema/flat_map.h"

namespace whence::view {

using onnx_file::OnnxNode;
using onnx_file::OnnxSummary;

namespace {

constexpr std::array<std::string_view, change_count> change_words = {"added",   "removed", "fused", "replaced",
                                                                     "changed", "renamed", "moved"};

std::string label(const OnnxNode& node) {
  if (!node.name.empty() || node.outputs.empty()) return std::string(node.name);
  return std::string(node.outputs.front());
}

// Counts changes by module; nodes without a module have a separate row.
class Rows {
 public:
  void count(const DiffNode& node, std::int64_t ModuleDiff::* total, std::int64_t ModuleDiff::* own) {
    ++(all_.*total);
    for (ModuleDiff* row : rows_of({node.attribution.modules.begin(), node.attribution.modules.end()})) ++(row->*total);
    for (const std::string& module : node.attribution.modules) ++(tree_.rows[tree_.add(module)].diff.*own);
    if (node.attribution.modules.empty()) ++(without_.*own);
  }

  void count(const ChangedNode& node) {
    std::set<std::string> modules(node.modules_a.begin(), node.modules_a.end());
    modules.insert(node.modules_b.begin(), node.modules_b.end());
    const auto index = static_cast<std::size_t>(node.change);
    ++all_.changes[index];
    for (ModuleDiff* row : rows_of(modules)) ++row->changes[index];
  }

  // Counts each parameter once for every module at or below which a node reads it.
  void count_parameters(const onnx_file::OnnxGraph& graph, const DiffNodes& nodes, std::int64_t ModuleDiff::* total) {
    ParametersRead parameters(graph);
    for (const DiffNode& node : nodes) parameters.add(*node.node, node.attribution);
    parameters.each([&](const ReadParameter& parameter) {
      all_.*total += parameter.elements;
      std::set<ModuleDiff*> rows;
      if (parameter.unplaced) rows.insert(&without_);
      if (!parameter.modules.empty()) rows.merge(rows_of(parameter.modules));
      for (ModuleDiff* row : rows) row->*total += parameter.elements;
    });
  }

  void finish(ModelDiff& diff) {
    tree_.order_depth_first();
    for (Row& row : tree_.rows) {
      row.diff.path = std::move(row.path);
      row.diff.level = row.level;
      diff.modules.push_back(std::move(row.diff));
    }
    if (without_.own_a + without_.own_b > 0) diff.modules.push_back(without_);
    diff.all = all_;
  }

 private:
  struct Row : origin::ModulePlace {
    ModuleDiff diff;
  };

  std::set<ModuleDiff*> rows_of(const std::set<std::string>& modules) {
    if (modules.empty()) return {&without_};
    std::set<ModuleDiff*> rows;
    for (const std::size_t row : tree_.around(modules)) rows.insert(&tree_.rows[row].diff);
    return rows;
  }

  origin::ModuleTree<Row> tree_;  // siblings in the order of their first nodes; modules of one node by name
  ModuleDiff without_, all_;
};

// Makes changed nodes of two files from their numbers.
class ChangesOf {
 public:
  ChangesOf(const DiffNodes& a, const DiffNodes& b) : a_(a), b_(b) {}

  ChangedNode operator()(Change change, std::optional<std::size_t> a, std::optional<std::size_t> b) const {
    ChangedNode node;
    node.change = change;
    node.op_type = (b ? b_[*b] : a_[*a]).node->op_type;
    node.a = a;
    node.b = b;
    if (a) {
      node.name_a = label(*a_[*a].node);
      node.modules_a = a_[*a].attribution.modules;
    }
    if (b) {
      node.name_b = label(*b_[*b].node);
      node.modules_b = b_[*b].attribution.modules;
    }
    return node;
  }

 private:
  const DiffNodes& a_;
  const DiffNodes& b_;
};

// Compares nodes without names by their outputs.
bool is_renamed(const OnnxNode& a, const OnnxNode& b) {
  return a.name != b.name || (a.name.empty() && a.outputs != b.outputs);
}

void add_fused(const NodePairs::Fusion& fusion, const DiffNodes& a, const DiffNodes& b, std::vector<ChangedNode>& to) {
  std::vector<std::string> old_nodes;
  std::set<std::string> modules;
  for (const std::size_t at : fusion.a) {
    old_nodes.push_back(std::string(a[at].node->op_type) + " " + label(*a[at].node));
    modules.insert(a[at].attribution.modules.begin(), a[at].attribution.modules.end());
  }
  const Change change = fusion.a.size() > 1 ? Change::fused : Change::replaced;
  for (const std::size_t at : fusion.b) {
    ChangedNode node = ChangesOf(a, b)(change, std::nullopt, at);
    node.fused = old_nodes;
    node.modules_a.assign(modules.begin(), modules.end());
    to.push_back(std::move(node));
  }
}

// Holds the producers of the values in both files.
class Wiring {
 public:
  Wiring(const DiffNodes& a, const DiffNodes& b, const NodePairs& pairs) {
    std::vector<std::optional<std::size_t>> pair_of_a(a.size()), pair_of_b(b.size());
    for (std::size_t at = 0; at < pairs.pairs.size(); ++at) {
      pair_of_a[pairs.pairs[at].a] = at;
      pair_of_b[pairs.pairs[at].b] = at;
    }
    add_makers(a, pair_of_a, makers_a_);
    add_makers(b, pair_of_b, makers_b_);
  }

  // Returns a text for each input whose producer changed, "input 0: /a/Add -> /b/Add", if both files have both
  // producers. Operands of commutative operators may be in any order.
  std::vector<std::string> between(const OnnxNode& a, const OnnxNode& b) const {
    if (a.inputs.size() != b.inputs.size()) return {};
    std::vector<std::string> differences;
    std::multiset<Value> made_in_a, made_in_b;
    for (std::size_t i = 0; i < a.inputs.size(); ++i) {
      const auto one = makers_a_.find(a.inputs[i]), other = makers_b_.find(b.inputs[i]);
      const bool made_a = one != makers_a_.end(), made_b = other != makers_b_.end();
      if ((made_a && !one->second) || (made_b && !other->second)) continue;
      if (made_a) made_in_a.insert(*one->second);
      if (made_b) made_in_b.insert(*other->second);
      if (made_a == made_b && (!made_a || *one->second == *other->second)) continue;
      differences.push_back("input " + std::to_string(i) + ": " + std::string(a.inputs[i]) + " -> " +
                            std::string(b.inputs[i]));
    }
    if (operators::has(b.op_type, operators::commutative) && made_in_a == made_in_b) return {};
    return differences;
  }

 private:
  using Value = std::pair<std::size_t, std::size_t>;  // number of the pair of nodes that produces it, and of the output
  // nullopt: the producer is missing in the other file, or several bodies have a producer of this name.
  using Makers = std::unordered_map<std::string_view, std::optional<Value>>;

  static void add_makers(const DiffNodes& nodes, const std::vector<std::optional<std::size_t>>& pair_of,
                         Makers& makers) {
    for (std::size_t at = 0; at < nodes.size(); ++at) {
      if (nodes[at].constant) continue;  // the other file may store this value as a weight
      const std::vector<std::string_view>& outputs = nodes[at].node->outputs;
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        const auto made = pair_of[at] ? std::optional(Value{*pair_of[at], i}) : std::nullopt;
        const auto [entry, is_new] = makers.try_emplace(outputs[i], made);
        if (!is_new) entry->second.reset();
      }
    }
  }

  Makers makers_a_, makers_b_;
};

std::vector<ChangedNode> changes(const DiffNodes& a, const DiffNodes& b, const NodePairs& pairs,
                                 NodeChanges& node_changes) {
  const Wiring wiring(a, b, pairs);
  const ChangesOf changed(a, b);
  std::vector<ChangedNode> nodes;
  std::set<std::size_t> in_fusion;
  for (const auto& fusion : pairs.fusions) in_fusion.insert(fusion.b.begin(), fusion.b.end());
  for (const std::size_t at : pairs.added) {
    nodes.push_back(changed(Change::added, std::nullopt, at));
    nodes.back().inserted = is_inserted(b[at]);
  }
  for (const std::size_t at : pairs.removed) nodes.push_back(changed(Change::removed, at, std::nullopt));
  for (const auto& fusion : pairs.fusions) add_fused(fusion, a, b, nodes);
  for (const auto& [one, other] : pairs.pairs) {
    if (in_fusion.contains(other)) continue;
    std::vector<std::string> differences = node_changes.between(*a[one].node, *b[other].node);
    std::ranges::move(wiring.between(*a[one].node, *b[other].node), std::back_inserter(differences));
    if (!differences.empty()) {
      nodes.push_back(changed(Change::changed, one, other));
      nodes.back().differences = std::move(differences);
    }
    if (is_renamed(*a[one].node, *b[other].node)) nodes.push_back(changed(Change::renamed, one, other));
    if (a[one].attribution.modules != b[other].attribution.modules) {
      nodes.push_back(changed(Change::moved, one, other));
    }
  }
  std::stable_sort(nodes.begin(), nodes.end(), [](const auto& x, const auto& y) { return x.change < y.change; });
  return nodes;
}

}  // namespace

std::string_view name_of(Change change) { return change_words[static_cast<std::size_t>(change)]; }

bool ModuleDiff::same() const {
  return nodes_a == nodes_b && parameters_a == parameters_b &&
         std::all_of(changes.begin(), changes.end(), [](std::int64_t count) { return count == 0; });
}

namespace {

using Names = std::vector<std::string_view>;

// Returns the names of values, without initializers: old files list these as inputs.
Names names_of(const std::vector<onnx_file::OnnxValue>& values, const onnx_file::OnnxGraph& graph) {
  FlatSet<std::string_view> initializers;
  for (const onnx_file::OnnxTensor& tensor : graph.initializers) initializers.insert(tensor.name);
  Names names;
  for (const onnx_file::OnnxValue& value : values) {
    if (!initializers.contains(value.name)) names.push_back(value.name);
  }
  return names;
}

void compare_names(std::string_view what, const Names& a, const Names& b, std::vector<std::string>& differences) {
  const auto has = [](const Names& names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  const std::size_t before = differences.size();
  const auto add_difference = [&](std::string_view name, std::string_view change) {
    differences.push_back(std::string(what) + " " + std::string(name) + " " + std::string(change));
  };
  for (const std::string_view name : a) {
    if (!has(b, name)) add_difference(name, "removed");
  }
  for (const std::string_view name : b) {
    if (!has(a, name)) add_difference(name, "added");
  }
  if (differences.size() == before && a != b) differences.push_back(std::string(what) + "s in another order");
}

// Compares the models' opsets, inputs and outputs.
std::vector<std::string> model_differences(const OnnxSummary& a, const OnnxSummary& b) {
  std::vector<std::string> differences;
  const std::int64_t before = opset_version(a, ""), after = opset_version(b, "");
  if (before != after) differences.push_back("opset " + std::to_string(before) + " -> " + std::to_string(after));
  compare_names("input", names_of(a.graph.inputs, a.graph), names_of(b.graph.inputs, b.graph), differences);
  compare_names("output", names_of(a.graph.outputs, a.graph), names_of(b.graph.outputs, b.graph), differences);
  return differences;
}

}  // namespace

Comparison compare_models(const OnnxSummary& a, const OnnxSummary& b, const Program* program) {
  Comparison result{.a = diff_nodes(a, program), .b = diff_nodes(b, program), .pairs = {}, .diff = {}};
  result.pairs = pair_nodes(result.a, result.b);
  ModelDiff& diff = result.diff;
  diff.model = model_differences(a, b);
  diff.file_a = base_name(a.file->path());
  diff.file_b = base_name(b.file->path());
  Rows rows;
  for (const DiffNode& node : result.a) rows.count(node, &ModuleDiff::nodes_a, &ModuleDiff::own_a);
  for (const DiffNode& node : result.b) rows.count(node, &ModuleDiff::nodes_b, &ModuleDiff::own_b);
  rows.count_parameters(a.graph, result.a, &ModuleDiff::parameters_a);
  rows.count_parameters(b.graph, result.b, &ModuleDiff::parameters_b);
  NodeChanges node_changes(a, b);
  diff.nodes = changes(result.a, result.b, result.pairs, node_changes);
  diff.notes = node_changes.notes();
  for (const ChangedNode& node : diff.nodes) rows.count(node);
  rows.finish(diff);
  return result;
}

ModelDiff diff_models(const OnnxSummary& a, const OnnxSummary& b, const Program* program) {
  return std::move(compare_models(a, b, program).diff);
}

}  // namespace whence::view
