#include "annotator/derivation/contradictions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include <onnx/onnx_pb.h>

#include "annotator/derivation/packed_products.h"
#include "annotator/match/op_class.h"
#include "annotator/onnx_file/node_attributes.h"
#include "annotator/program/tensor_values.h"

namespace whence::derivation {

using onnx_file::OnnxNode;

namespace {

std::optional<double> number_of(const OnnxNode& node, std::string_view name) {
  for (const onnx_file::OnnxAttribute& attribute : node.attributes) {
    onnx::AttributeProto message;
    const bool is_read = attribute.name == name &&
                         message.ParseFromArray(attribute.message.data(), static_cast<int>(attribute.message.size()));
    if (is_read) return message.f();
  }
  return std::nullopt;
}

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

std::string Contradictions::of(const OnnxNode& node, const Operations& operations) const {
  std::string found = other_norm(node, operations);
  if (found.empty()) found = other_activation(node, operations);
  if (found.empty()) found = value_read_twice(node, operations);
  if (found.empty()) found = other_factor(node, operations);
  if (found.empty()) found = constant_bias(node);
  if (found.empty()) found = missing_shift(node);
  if (found.empty()) found = other_pairs(node, operations);
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

std::string Contradictions::value_read_twice(const OnnxNode& node, const Operations& operations) const {
  if (node.inputs.size() != 2 || node.inputs[0] != node.inputs[1]) return "";
  const auto twice = operations_.reads_twice(operations, match::op_class(node.op_type));
  return twice && !*twice ? "reads one value twice, in the program two values" : "";
}

std::string Contradictions::other_factor(const OnnxNode& node, const Operations& operations) const {
  if (node.op_type != "FusedMatMul") return "";
  const double alpha = number_of(node, "alpha").value_or(1);
  if (alpha == 1) return "";
  constexpr double rounding = 1e-5;
  const auto factors = operations_.factors(operations);
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
  // Written out (written_out.h), a rotation negates the second half of each head.
  const bool is_of_rotation =
      node.op_type == "Neg" && node.name.empty() && !node.inputs.empty() && node.inputs[0].starts_with("written out ");
  if (!is_of_rotation) return "";
  const auto step = operations_.step_before_negation(operations);
  return step && *step != 1 ? "turns halves of each head, in the program pairs of neighbours" : "";
}

}  // namespace whence::derivation
