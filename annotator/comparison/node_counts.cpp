#include "annotator/comparison/node_counts.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "annotator/comparison/stated_numbers.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/match/op_class.h"
#include "annotator/onnx_file/node_attributes.h"

namespace whence::comparison {

using derivation::FileTensors;
using derivation::is_arithmetic;
using derivation::is_movement;
using derivation::no_tensor;
using derivation::QuantisedWeight;
using derivation::TensorNumber;

using onnx_file::OnnxNode;

namespace {

// Returns the nodes on which an output depends, and all in bodies.
std::set<const OnnxNode*> used_nodes(const onnx_file::OnnxGraph& graph, const FileTensors& tensors) {
  std::set<const OnnxNode*> used;
  std::vector<std::string_view> open;
  for (const onnx_file::OnnxValue& output : graph.outputs) open.push_back(output.name);
  while (!open.empty()) {
    const OnnxNode* const maker = tensors.producer(open.back());
    open.pop_back();
    if (maker == nullptr || !used.insert(maker).second) continue;
    open.insert(open.end(), maker->inputs.begin(), maker->inputs.end());
    for (const onnx_file::OnnxGraph& body : maker->subgraphs) {
      for (const OnnxNode* node : onnx_file::all_nodes(body)) {
        used.insert(node);
        open.insert(open.end(), node->inputs.begin(), node->inputs.end());
      }
    }
  }
  return used;
}

const OnnxNode* maker_of(std::string_view value, std::string_view op_type, const FileTensors& tensors) {
  const OnnxNode* const maker = tensors.producer(value);
  return maker != nullptr && maker->op_type == op_type && !maker->inputs.empty() ? maker : nullptr;
}

bool is_constant_scale(std::string_view value, const FileTensors& tensors) {
  const TensorNumber tensor = tensors.find(value);
  return tensor != no_tensor &&
         std::ranges::find(tensors.quantised(), tensor, &QuantisedWeight::scales) != tensors.quantised().end();
}

bool is_measured_scale(std::string_view value, const FileTensors& tensors) {
  const OnnxNode* const quantiser = maker_of(value, "DynamicQuantizeLinear", tensors);
  return quantiser != nullptr && quantiser->outputs.size() > 1 && value == quantiser->outputs[1];
}

bool is_product_of_scales(const OnnxNode& node, const FileTensors& tensors) {
  return std::ranges::any_of(node.inputs, [&](std::string_view input) { return is_measured_scale(input, tensors); }) ||
         std::ranges::all_of(node.inputs, [&](std::string_view input) { return is_constant_scale(input, tensors); });
}

bool is_integer_sum(std::string_view value, const FileTensors& tensors) {
  const OnnxNode* const cast = maker_of(value, "Cast", tensors);
  return cast != nullptr && (maker_of(cast->inputs[0], "MatMulInteger", tensors) != nullptr ||
                             maker_of(cast->inputs[0], "ConvInteger", tensors) != nullptr);
}

// Returns true for a node that cuts off numbers, perhaps by its attribute. The match places a product also at the
// activation after it, which a quantiser or a change dropped.
bool may_cut(const OnnxNode& node) {
  static const std::set<std::string_view> cutting = {"Clip", "Max", "Min", "Relu"};
  return cutting.contains(node.op_type) || !onnx_file::text_attribute(node, "activation").empty();
}

}  // namespace

std::string_view rescaled_sum(const OnnxNode& node, const FileTensors& tensors) {
  if (node.op_type != "Mul" || node.inputs.size() != 2) return {};
  for (const std::size_t sum : {0, 1}) {
    const OnnxNode* const scales = maker_of(node.inputs[1 - sum], "Mul", tensors);
    const bool is_rescaled = scales != nullptr && is_product_of_scales(*scales, tensors);
    if (is_rescaled && is_integer_sum(node.inputs[sum], tensors)) return node.inputs[sum];
  }
  return {};
}

bool is_rescaling(const OnnxNode& node, const FileTensors& tensors) {
  if (node.op_type != "Mul" || node.inputs.size() != 2) return false;
  return is_product_of_scales(node, tensors) || !rescaled_sum(node, tensors).empty();
}

Surplus::Surplus(const std::vector<const OnnxNode*>& nodes, const std::vector<Placed>& placed,
                 const OperationForms& operations, const FileTensors& tensors)
    : nodes_(nodes), placed_(placed), operations_(operations) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool counts = !placed[i].is_size && !is_rescaling(*nodes[i], tensors);
    if (counts && placed[i].operations.size() == 1) counts_[key_of(i)] += placed[i].share;
  }
}

std::string Surplus::of(std::size_t node) const {
  // Operators on integers are often placed at a neighbour.
  const std::string_view op_type = nodes_[node]->op_type;
  const bool is_counted =
      (is_arithmetic(op_type) || op_type == "Gather" || op_type == "Where") && !op_type.starts_with("QLinear");
  if (placed_[node].operations.size() != 1 || !is_counted) return "";
  const auto [operation, op_class] = key_of(node);
  std::int64_t most = operations_.count(operation, op_class);
  if (most == 0) return "";
  // Exporters write attention with one scaling of each operand, and with a mask that is added.
  const bool is_of_attention = operations_.count(operation, match::op_class("Softmax")) > 0;
  if (is_of_attention && (op_class == match::op_class("Mul") || op_class == match::op_class("Add"))) ++most;
  constexpr double rounding = 1e-6;
  const double count = counts_.at(key_of(node));
  if (count <= static_cast<double>(most) + rounding) return "";
  return "one of " + std::to_string(std::llround(std::ceil(count - rounding))) +
         " such nodes for an operation, which the program computes with " + std::to_string(most);
}

std::pair<std::int32_t, std::uint16_t> Surplus::key_of(std::size_t node) const {
  return {placed_[node].operations[0], match::op_class(nodes_[node]->op_type)};
}

std::set<std::int32_t> operations_of_angles(const OperationForms& operations, const Wiring& program) {
  std::set<std::int32_t> found;
  std::vector<std::int32_t> open;
  for (const std::int32_t operation : operations.computing()) {
    const bool is_function = operations.count(operation, match::op_class("Cos")) > 0 ||
                             operations.count(operation, match::op_class("Sin")) > 0;
    if (!is_function) continue;
    open.push_back(operation);
    for (const std::int32_t reader : program.readers_of({operation})) {
      if (program.are_of_one_module(operation, reader)) found.insert(reader);
    }
  }
  while (!open.empty()) {
    const std::int32_t operation = open.back();
    open.pop_back();
    found.insert(operation);
    for (const std::int32_t source : program.sources_of({operation})) {
      if (!found.contains(source) && program.are_of_one_module(operation, source)) open.push_back(source);
    }
  }
  return found;
}

std::vector<std::string> dropped_operations(const std::vector<const OnnxNode*>& nodes,
                                            const onnx_file::OnnxGraph& graph, const std::vector<Placed>& placed,
                                            const OperationForms& operations, const Wiring& program,
                                            const match::Reference& reference, const FileTensors& tensors,
                                            const std::function<bool(std::int32_t)>& is_replaced) {
  std::vector<std::string> dropped;
  const std::set<const OnnxNode*> used = used_nodes(graph, tensors);
  std::set<std::int32_t> standing;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!used.contains(nodes[i]) || is_movement(nodes[i]->op_type)) continue;
    const auto op_class = match::op_class(nodes[i]->op_type);
    auto own = placed[i].operations;
    // The match gives a node also operations beside it for which no node stands.
    const auto covered = operations.covered(own, op_class);
    if (placed[i].is_plain && !covered.empty()) own = covered;
    own.insert(own.end(), placed[i].folded.begin(), placed[i].folded.end());
    own = operations.with_joined(std::move(own), op_class);
    for (const std::int32_t operation : own) {
      const bool is_within = bounds_of(operations, operation) && !may_cut(*nodes[i]);
      if (!is_within) standing.insert(program.role_of(operation));
    }
  }
  for (const std::int32_t operation : operations.computing()) {
    const bool stands = std::ranges::any_of(
        operations.fused_with(operation), [&](std::int32_t each) { return standing.contains(program.role_of(each)); });
    if (stands || is_replaced(operation)) continue;
    const match::ReferenceUnit& unit = reference.units[match::UnitIndex(operation)];
    const std::string module = unit.scope.exists() ? reference.scopes[unit.scope].path : "";
    dropped.push_back("no node stands for " + unit.name + (module.empty() ? "" : " of " + module));
  }
  return dropped;
}

}  // namespace whence::comparison
