#include "annotator/comparison/operation_forms.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "annotator/comparison/packed_products.h"
#include "annotator/comparison/wiring.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/match/op_class.h"

namespace whence::comparison {

using derivation::is_arithmetic;
using derivation::multiplies;
using derivation::ProgramForm;

OperationForms::OperationForms(std::vector<ProgramForm> forms) : forms_(std::move(forms)) {
  std::set<const graph::Graph*> known;
  for (const ProgramForm& form : forms_) {
    if (known.insert(form.graph.get()).second)
      add(*form.graph, form.opset, ++graphs_, {form.graph->inputs.begin(), form.graph->inputs.end()});
  }
}

// `live`: the values that depend on an input of the program.
void OperationForms::add(const graph::Graph& graph, int opset, std::size_t form, std::set<graph::GraphValueId> live) {
  for (const graph::GraphNode& node : graph.nodes) {
    if (node.removed) continue;
    const bool is_live =
        std::ranges::any_of(node.inputs, [&](graph::GraphValueId input) { return live.contains(input); });
    if (is_live && node.op_type != "Shape" && node.op_type != "Size")
      live.insert(node.outputs.begin(), node.outputs.end());
    for (const std::int32_t operation : node.origin.ops)
      nodes_[operation].push_back({&graph, &node, opset, form, is_live});
    graph::for_each_body(node, [&](const graph::Graph& body) { add(body, opset, form, {}); });
  }
}

std::vector<std::int32_t> OperationForms::computing() const {
  std::vector<std::int32_t> found;
  for (const auto& [operation, nodes] : nodes_) {
    std::set<std::size_t> forms;
    for (const FormNode& each : nodes) {
      // A constant that several operations share computes nothing of its own. A norm in a product is in its weight.
      const auto kind = each.node->origin.kind;
      const bool is_own =
          kind == origin::OriginKind::own || (kind == origin::OriginKind::fused && !multiplies(each.node->op_type));
      const bool computes = is_arithmetic(each.node->op_type) && is_own;
      const bool is_floating_result =
          !each.node->outputs.empty() &&
          is_floating(each.graph->values[static_cast<std::size_t>(each.node->outputs[0])].dtype);
      if (computes && is_floating_result && each.is_live) forms.insert(each.form);
    }
    if (forms.size() == graphs_) found.push_back(operation);
  }
  std::ranges::sort(found);
  return found;
}

// Returns the operations of all nodes of this class that stand for one of the operations.
std::set<std::int32_t> OperationForms::of_same_nodes(const std::vector<std::int32_t>& operations,
                                                     std::uint16_t op_class) const {
  std::set<std::int32_t> all;
  for (const std::int32_t operation : operations) {
    const auto found = nodes_.find(operation);
    if (found == nodes_.end()) continue;
    for (const FormNode& form : found->second) {
      const origin::NodeOrigin& origin = form.node->origin;
      const bool is_same = match::op_class(form.node->op_type) == op_class;
      if (is_same && origin.kind != origin::OriginKind::shared) all.insert(origin.ops.begin(), origin.ops.end());
    }
  }
  return all;
}

std::set<std::int32_t> OperationForms::fused_with(std::int32_t operation) const {
  std::set<std::int32_t> all = {operation};
  const auto found = nodes_.find(operation);
  if (found == nodes_.end()) return all;
  for (const FormNode& form : found->second) {
    const origin::NodeOrigin& origin = form.node->origin;
    if (origin.kind == origin::OriginKind::fused && !multiplies(form.node->op_type))
      all.insert(origin.ops.begin(), origin.ops.end());
  }
  return all;
}

std::vector<std::int32_t> OperationForms::covered(std::vector<std::int32_t> operations, std::uint16_t op_class) const {
  const auto allowed = of_same_nodes(operations, op_class);
  std::erase_if(operations, [&](std::int32_t each) { return !allowed.contains(each); });
  return operations;
}

std::vector<std::int32_t> OperationForms::with_joined(std::vector<std::int32_t> operations,
                                                      std::uint16_t op_class) const {
  auto all = of_same_nodes(operations, op_class);
  all.insert(operations.begin(), operations.end());
  return {all.begin(), all.end()};
}

std::int64_t OperationForms::count(std::int32_t operation, std::uint16_t op_class) const {
  const auto found = nodes_.find(operation);
  if (found == nodes_.end()) return 0;
  std::map<std::size_t, std::int64_t> counts;
  std::int64_t largest = 0;
  for (const FormNode& form : found->second) {
    if (match::op_class(form.node->op_type) == op_class) largest = std::max(largest, ++counts[form.form]);
  }
  return largest;
}

bool OperationForms::converts_to(DType dtype) const {
  return std::ranges::any_of(forms_, [&](const ProgramForm& form) {
    return std::ranges::any_of(form.graph->nodes, [&](const graph::GraphNode& node) {
      return node.op_type == "Cast" && !node.outputs.empty() &&
             form.graph->values[static_cast<std::size_t>(node.outputs[0])].dtype == dtype;
    });
  });
}

}  // namespace whence::comparison
