#include "annotator/comparison/operand_order.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "annotator/derivation/operator_classes.h"
#include "annotator/match/op_class.h"

namespace whence::comparison {

using derivation::is_movement;
using derivation::no_tensor;

namespace {

using onnx_file::OnnxNode;
using FormNode = OperationForms::FormNode;

constexpr std::int32_t constant = std::numeric_limits<std::int32_t>::min();  // no operation
constexpr int longest_way = 20;                                              // a chain of movements

bool share_one(const std::set<std::int32_t>& a, const std::set<std::int32_t>& b) {
  return std::ranges::any_of(a, [&](std::int32_t each) { return b.contains(each); });
}

// Returns the value of which this one is a moved or converted copy, or itself.
graph::GraphValueId before_movements(const graph::Graph& graph, graph::GraphValueId value) {
  for (int steps = 0; steps < longest_way; ++steps) {
    const graph::GraphNode* const maker = graph.producer(value);
    if (maker == nullptr || !is_movement(maker->op_type) || maker->inputs.empty()) break;
    value = maker->inputs[0];
  }
  return value;
}

// What a form says about the order of a file's operands.
enum class Order : std::uint8_t { unknown, same, other };

// Compares each operand of the file with that of the form in the same place, and each pair with the form's.
Order compare(const std::vector<std::set<std::int32_t>>& theirs, const std::vector<std::set<std::int32_t>>& ours) {
  const auto places = [&](const std::set<std::int32_t>& operand) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      if (share_one(operand, ours[i])) found.push_back(i);
    }
    return found;
  };
  bool is_known = false;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    const auto own = places(theirs[i]);
    if (own.empty()) continue;
    const bool is_alike = theirs.size() == ours.size();
    if (is_alike && !ours[i].empty() && std::ranges::find(own, i) == own.end()) return Order::other;
    for (std::size_t j = i + 1; j < theirs.size(); ++j) {
      const auto next = places(theirs[j]);
      if (next.empty()) continue;
      if (own.front() > next.back()) return Order::other;
      is_known = true;
    }
    is_known = is_known || is_alike;
  }
  return is_known ? Order::same : Order::unknown;
}

}  // namespace

bool is_ordered(std::string_view op_type) {
  static const std::set<std::string_view> ordered = {"Attention", "Concat",      "Div",    "Greater", "GreaterOrEqual",
                                                     "Less",      "LessOrEqual", "MatMul", "Mod",     "Pow",
                                                     "PRelu",     "Sub",         "Where"};
  return ordered.contains(op_type);
}

OperandOrder::Operand OperandOrder::operand_of(const OnnxNode& node, std::size_t slot,
                                               const MakersOf& makers_of) const {
  std::string_view value = node.inputs[slot];
  for (int steps = 0; steps < longest_way; ++steps) {
    if (tensors_.find(value) != no_tensor) return {constant};
    const OnnxNode* const maker = tensors_.producer(value);
    if (maker == nullptr || !is_movement(maker->op_type) || maker->inputs.empty()) break;
    value = maker->inputs[0];
  }
  Operand operand;
  for (const std::int32_t maker : makers_of(node.inputs[slot])) operand.insert(program_.role_of(maker));
  return operand;
}

OperandOrder::Operand OperandOrder::operand_of(const FormNode& form, std::size_t slot) const {
  const graph::Graph& graph = *form.graph;
  const graph::GraphValueId value = before_movements(graph, form.node->inputs[slot]);
  if (value == graph::no_value) return {};
  if (graph.values[static_cast<std::size_t>(value)].initializer >= 0) return {constant};
  const auto input = std::ranges::find(graph.inputs, value);
  const bool is_input = graph.outer == nullptr && input != graph.inputs.end();
  if (is_input) return {Wiring::of_input(static_cast<std::size_t>(input - graph.inputs.begin()))};
  const graph::GraphNode* const maker = graph.producer(value);
  if (maker == nullptr) return {};
  if (maker->op_type == "Constant") return {constant};
  Operand operand;
  for (const std::int32_t operation : maker->origin.ops) operand.insert(program_.role_of(operation));
  return operand;
}

// A sum of a value with itself, where the program adds two values.
std::string OperandOrder::value_read_twice(const OnnxNode& node, const std::vector<std::int32_t>& operations) const {
  if (node.inputs.size() != 2 || node.inputs[0] != node.inputs[1]) return "";
  std::optional<bool> twice;
  forms_.for_each_node(operations, [&](const FormNode& form) {
    if (match::op_class(form.node->op_type) != match::op_class(node.op_type) || form.node->inputs.size() != 2) return;
    const auto& inputs = form.node->inputs;
    twice =
        twice.value_or(false) || before_movements(*form.graph, inputs[0]) == before_movements(*form.graph, inputs[1]);
  });
  return twice && !*twice ? "reads one value twice, in the program two values" : "";
}

bool OperandOrder::is_negated(std::string_view condition) const {
  bool negated = false;
  for (int steps = 0; steps < longest_way; ++steps) {
    const OnnxNode* const maker = tensors_.producer(condition);
    const bool is_not = maker != nullptr && maker->op_type == "Not";
    if (maker == nullptr || maker->inputs.empty() || !(is_not || is_movement(maker->op_type))) break;
    negated = negated != is_not;
    condition = maker->inputs[0];
  }
  return negated;
}

bool OperandOrder::is_negated(const graph::Graph& graph, graph::GraphValueId condition) {
  bool negated = false;
  for (int steps = 0; steps < longest_way; ++steps) {
    const graph::GraphNode* const maker = graph.producer(condition);
    const bool is_not = maker != nullptr && maker->op_type == "Not";
    if (maker == nullptr || maker->inputs.empty() || !(is_not || is_movement(maker->op_type))) break;
    negated = negated != is_not;
    condition = maker->inputs[0];
  }
  return negated;
}

std::string OperandOrder::difference(const OnnxNode& node, const std::vector<std::int32_t>& operations,
                                     const MakersOf& makers_of) const {
  if (std::string twice = value_read_twice(node, operations); !twice.empty()) return twice;
  if (!is_ordered(node.op_type)) return "";
  Operand own;
  for (const std::int32_t operation : operations) own.insert(program_.role_of(operation));
  std::vector<Operand> theirs;
  for (std::size_t slot = 0; slot < node.inputs.size(); ++slot) {
    theirs.push_back(operand_of(node, slot, makers_of));
    // Within one operation, exporters choose the steps.
    if (share_one(theirs.back(), own)) theirs.back().clear();
  }
  const bool is_known = std::ranges::any_of(
      theirs, [](const Operand& operand) { return !operand.empty() && !operand.contains(constant); });
  // An operation may have several choices between constants: a mask, and what replaces NaN.
  if (node.op_type == "Where" && !is_known) return "";
  bool is_same = false, is_other = false;
  forms_.for_each_node(operations, [&](const FormNode& form) {
    if (form.node->op_type != node.op_type) return;
    std::vector<Operand> ours;
    for (std::size_t slot = 0; slot < form.node->inputs.size(); ++slot) ours.push_back(operand_of(form, slot));
    // ONNX Runtime removes a Not before Where, and exchanges the branches.
    const bool is_choice = node.op_type == "Where" && ours.size() == 3;
    if (is_choice && is_negated(node.inputs[0]) != is_negated(*form.graph, form.node->inputs[0]))
      std::swap(ours[1], ours[2]);
    const Order order = compare(theirs, ours);
    is_same = is_same || order == Order::same;
    is_other = is_other || order == Order::other;
  });
  return is_other && !is_same ? "its operands are exchanged" : "";
}

}  // namespace whence::comparison
