#include "annotator/comparison/contradictions.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include "annotator/comparison/packed_products.h"
#include "annotator/comparison/stated_numbers.h"
#include "annotator/comparison/wiring.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/match/op_class.h"
#include "annotator/onnx_file/node_attributes.h"
#include "annotator/program/tensor_values.h"

namespace whence::comparison {

using derivation::bias_slot;
using derivation::Contents;
using derivation::Derivation;
using derivation::Expression;
using derivation::FileTensors;
using derivation::FoldStep;
using derivation::is_movement;
using derivation::no_tensor;
using derivation::ParameterStep;
using derivation::TensorNumber;
using derivation::Verdict;

using onnx_file::OnnxNode;

namespace {

// Calls visit(parameter, is_bias) with each parameter of the norms that are folded into the expression.
template <class Visit>
void for_each_norm(const Expression& expression, const Visit& visit) {
  if (const auto* fold = std::get_if<FoldStep>(&expression.step)) {
    // The first input is what the norm was folded into, unless there is nothing.
    const bool has_first = !fold->is_bias || fold->has_bias;
    for (std::size_t i = has_first ? 1 : 0; i < expression.inputs.size(); ++i) {
      for_each_parameter(expression.inputs[i], [&](const ParameterStep& step) { visit(step.name, fold->is_bias); });
    }
  }
  for (const Expression& input : expression.inputs) for_each_norm(input, visit);
}

// Returns the numbers that the operations' nodes with this operator state for an attribute.
std::vector<double> stated_by(const OperationForms& forms, const std::vector<std::int32_t>& operations,
                              std::string_view op_type, std::string_view name) {
  std::vector<double> found;
  forms.for_each_node(operations, [&](const OperationForms::FormNode& form) {
    const graph::Attribute* const own = form.node->op_type == op_type ? form.node->find(name) : nullptr;
    const auto* const number = own == nullptr ? nullptr : std::get_if<float>(&own->value);
    if (number != nullptr) found.push_back(*number);
  });
  return found;
}

// Returns the step of the Slice whose result the operations negate; nullopt if there is none.
std::optional<std::int64_t> step_before_negation(const OperationForms& forms,
                                                 const std::vector<std::int32_t>& operations) {
  constexpr std::size_t steps_slot = 4;
  constexpr int longest = 8;  // a chain of movements
  std::optional<std::int64_t> step;
  forms.for_each_node(operations, [&](const OperationForms::FormNode& form) {
    if (form.node->op_type != "Neg") return;
    const graph::GraphNode* maker = form.graph->producer(form.node->inputs[0]);
    for (int i = 0; i < longest && maker != nullptr && is_movement(maker->op_type) && !maker->inputs.empty(); ++i)
      maker = form.graph->producer(maker->inputs[0]);
    if (maker == nullptr || maker->op_type != "Slice") return;
    step = step.value_or(1);
    if (maker->inputs.size() <= steps_slot) return;
    const auto steps = form.graph->integers(maker->inputs[steps_slot]);
    if (steps && steps->size() == 1) step = steps->front();
  });
  return step;
}

}  // namespace

Contradictions::Contradictions(const OperationForms& operations, const FileTensors& tensors,
                               const std::vector<Derivation>& derivations, Contents& contents)
    : operations_(operations), tensors_(tensors), derivations_(derivations), contents_(contents) {
  for (std::size_t i = 0; i < derivations.size(); ++i) {
    if (!derivations[i].expression || tensors.all()[i].uses.empty()) continue;
    for_each_norm(*derivations[i].expression, [&](const std::string& name, bool is_bias) {
      if (is_bias) shifting_.insert(name);
    });
  }
}

std::string Contradictions::of(const OnnxNode& node, const Operations& operations, bool is_drafted) const {
  std::string found = other_norm(node, operations);
  if (found.empty()) found = other_activation(node, operations);
  if (found.empty()) found = other_function(node, operations);
  if (found.empty()) found = other_factor(node, operations);
  if (found.empty()) found = constant_bias(node);
  if (found.empty()) found = missing_shift(node);
  if (found.empty() && is_drafted) found = other_pairs(node, operations);
  return found;
}

bool Contradictions::any_has(const Operations& operations, std::string_view op_type) const {
  return std::ranges::any_of(operations,
                             [&](std::int32_t each) { return operations_.has(each, match::op_class(op_type)); });
}

std::string Contradictions::other_norm(const OnnxNode& node, const Operations& operations) const {
  static const std::set<std::string_view> with_mean = {"LayerNormalization", "SkipLayerNormalization"};
  static const std::set<std::string_view> by_root = {"RMSNormalization", "SimplifiedLayerNormalization",
                                                     "SkipSimplifiedLayerNormalization"};
  const bool program_has_mean = any_has(operations, "LayerNormalization");
  const bool program_has_root = any_has(operations, "RMSNormalization");
  if (by_root.contains(node.op_type) && program_has_mean && !program_has_root)
    return "a norm that keeps the mean, in the program one that subtracts it";
  if (with_mean.contains(node.op_type) && program_has_root && !program_has_mean)
    return "a norm that subtracts the mean, in the program one that keeps it";
  return "";
}

std::string Contradictions::other_activation(const OnnxNode& node, const Operations& operations) const {
  if (node.domain.empty()) return "";
  const std::string_view activation = onnx_file::text_attribute(node, "activation");
  if (activation.empty() || any_has(operations, activation)) return "";
  return "its activation is " + std::string(activation) + ", which the program does not have here";
}

std::string Contradictions::other_function(const OnnxNode& node, const Operations& operations) const {
  const std::string_view name = node.op_type;
  const auto has = [&](std::string_view op_type) { return any_has(operations, op_type); };
  const std::string other = "computes another function than the program";
  if (name == "QuickGelu") {
    constexpr double default_alpha = 1.702, rounding = 1e-5;
    const double alpha = onnx_file::number_attribute(node, "alpha").value_or(default_alpha);
    if (!has("Sigmoid") && !has("Swish")) return other;
    const auto factors = factors_of(operations_, operations);
    const bool is_known = alpha == 1 || std::ranges::any_of(factors, [&](double factor) {
                            return std::abs(alpha - factor) <= rounding * std::abs(factor);
                          });
    return is_known ? "" : other;
  }
  const bool is_exact_gelu = name == "BiasGelu" || (name == "Gelu" && !node.domain.empty());
  if (is_exact_gelu && !has("Erf") && has("Tanh")) return other;
  if (name == "FastGelu" && has("Sigmoid")) return other;
  constexpr double alpha = 1.6732632, rounding = 1e-4;  // of Selu, which is Elu times a factor
  if (name == "Elu" && has("Selu") && !has("Elu"))
    return std::abs(onnx_file::number_attribute(node, "alpha").value_or(1) - alpha) < rounding ? "" : other;
  if (name == "Selu" && !has("Selu")) {
    const auto stated = stated_by(operations_, operations, "Elu", "alpha");
    const bool is_scaled = std::ranges::any_of(stated, [&](double each) { return std::abs(each - alpha) < rounding; });
    return is_scaled ? "" : other;
  }
  if (name == "LogSoftmax" && !has("LogSoftmax") && !has("Log")) return other;
  const bool is_read_by_log = std::ranges::any_of(node.outputs, [&](std::string_view output) {
    return std::ranges::any_of(tensors_.readers(output), [](const OnnxNode* each) { return each->op_type == "Log"; });
  });
  return name == "Softmax" && !has("Softmax") && has("LogSoftmax") && !is_read_by_log ? other : "";
}

std::string Contradictions::other_factor(const OnnxNode& node, const Operations& operations) const {
  if (node.op_type != "FusedMatMul") return "";
  const double alpha = onnx_file::number_attribute(node, "alpha").value_or(1);
  if (alpha == 1) return "";
  constexpr double rounding = 1e-5;
  const auto factors = factors_of(operations_, operations);
  const bool is_known = std::ranges::any_of(
      factors, [&](double factor) { return std::abs(alpha - factor) <= rounding * std::abs(factor); });
  return is_known ? "" : "alpha is " + std::to_string(alpha) + ", which is no factor of the program here";
}

std::string Contradictions::constant_bias(const OnnxNode& node) const {
  const auto slot = bias_slot(node.op_type);
  if (!slot || node.inputs.size() <= *slot) return "";
  const TensorNumber bias = tensors_.find(node.inputs[*slot]);
  if (bias == no_tensor || derivations_[static_cast<std::size_t>(bias)].verdict != Verdict::constant) return "";
  const TensorData data = contents_.data(tensors_[bias]);
  const auto elements = program::Elements::of(data);
  for (std::size_t i = 0; elements && i < elements->size(); ++i) {
    if (elements->number(i) != 0) return "adds a constant as its bias";
  }
  return "";
}

std::string Contradictions::missing_shift(const OnnxNode& node) const {
  const auto slot = bias_slot(node.op_type);
  if (!slot || node.inputs.size() < 2 || (node.inputs.size() > *slot && !node.inputs[*slot].empty())) return "";
  const TensorNumber weight = tensors_.find(node.inputs[1]);
  if (weight == no_tensor || !derivations_[static_cast<std::size_t>(weight)].expression) return "";
  bool has_norm = false, has_shift = false;
  for_each_norm(*derivations_[static_cast<std::size_t>(weight)].expression, [&](const std::string& name, bool is_bias) {
    has_norm = has_norm || !is_bias;
    has_shift = has_shift || shifting_.contains(name);
  });
  return has_norm && !has_shift ? "the shift of the norm in its weight is in no tensor" : "";
}

std::string Contradictions::other_pairs(const OnnxNode& node, const Operations& operations) const {
  if (node.op_type != "Neg" || node.inputs.empty()) return "";
  // DraftedNodes::turn_pairs() negates a half of each head, or every second element.
  const OnnxNode* const maker = tensors_.producer(node.inputs[0]);
  const bool turns_neighbours = maker != nullptr && maker->op_type == "Slice";
  const auto step = step_before_negation(operations_, operations);
  if (turns_neighbours && step.value_or(1) == 1) return "turns neighbours of each head, in the program halves";
  return !turns_neighbours && step.value_or(1) != 1 ? "turns halves of each head, in the program pairs of neighbours"
                                                    : "";
}

}  // namespace whence::comparison
