#include "annotator/comparison/whole_operators.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "annotator/comparison/node_counts.h"
#include "annotator/comparison/packed_products.h"
#include "annotator/comparison/wiring.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/match/op_class.h"
#include "annotator/operators/onnx_operators.h"

namespace whence::comparison {

using derivation::Derivation;
using derivation::FileTensors;
using derivation::is_arithmetic;
using derivation::no_tensor;
using derivation::ParameterStep;
using derivation::TensorNumber;

using onnx_file::OnnxNode;

namespace {

// Returns true for operators that are no sums and products: exporters and tools write scales, biases and masks with
// those beside any operator, also on integers.
bool is_function(std::string_view op_type) {
  static const std::set<std::uint16_t> others = [] {
    std::set<std::uint16_t> classes;
    for (const char* each : {"Add", "Div", "Max", "Min", "Mod", "Mul", "Pow", "Sub", "Sum"})
      classes.insert(match::op_class(each));
    return classes;
  }();
  const std::uint16_t own = match::op_class(op_type);
  return is_arithmetic(op_type) && !others.contains(own) && !match::is_product(own);
}

// Pairs of operators of which the first alone computes what the second does, with fitting numbers.
bool may_replace(std::uint16_t one, std::uint16_t other) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 24> pairs = {{
      {"AveragePool", "ReduceMean"},
      {"Celu", "Elu"},
      {"Clip", "Relu"},
      {"Elu", "Celu"},
      {"Elu", "Selu"},
      {"HardSigmoid", "Clip"},
      {"InstanceNormalization", "GroupNormalization"},
      {"LeakyRelu", "PRelu"},
      {"MaxPool", "ReduceMax"},
      {"Neg", "Sub"},
      {"PRelu", "LeakyRelu"},
      {"Reciprocal", "Div"},
      {"Reciprocal", "Pow"},
      {"ReduceMax", "MaxPool"},
      {"ReduceMean", "AveragePool"},
      {"ReduceSum", "Einsum"},
      {"ReduceSum", "MatMul"},
      {"Relu", "Clip"},
      {"Relu", "Max"},
      {"Selu", "Elu"},
      {"Sqrt", "Pow"},
      {"Resize", "Upsample"},
      {"Upsample", "Resize"},
      {"Neg", "Mul"},
  }};
  return std::ranges::any_of(pairs, [&](const auto& pair) {
    return match::op_class(pair.first) == one && match::op_class(pair.second) == other;
  });
}

}  // namespace

WholeOperators::WholeOperators(const std::vector<const OnnxNode*>& nodes, const std::vector<Placed>& placed,
                               const OperationForms& operations, const FileTensors& tensors,
                               const std::vector<Derivation>& derivations)
    : nodes_(nodes), placed_(placed), operations_(operations), tensors_(tensors), derivations_(derivations) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (placed[i].is_size || !is_arithmetic(nodes[i]->op_type) || is_rescaling(*nodes[i], tensors)) continue;
    for (const std::int32_t operation : placed[i].operations)
      standing_[operation].insert(match::op_class(nodes[i]->op_type));
  }
}

std::string WholeOperators::difference(std::size_t node) const {
  const auto& own = placed_[node].operations;
  if (own.empty() || placed_[node].is_size) return "";
  std::string found = beside_whole(node);
  if (found.empty()) found = lone_part(node);
  if (found.empty()) found = other_sign(*nodes_[node], own);
  if (found.empty()) found = other_power(*nodes_[node], own);
  return found;
}

std::vector<WholeOperators::Classes> WholeOperators::functions_of(std::int32_t operation) const {
  std::map<std::size_t, Classes> by_form;
  operations_.for_each_node({operation}, [&](const OperationForms::FormNode& form) {
    if (form.is_live && is_function(form.node->op_type)) by_form[form.form].insert(match::op_class(form.node->op_type));
  });
  std::vector<Classes> all;
  for (auto& [form, classes] : by_form) all.push_back(std::move(classes));
  return all;
}

std::string WholeOperators::beside_whole(std::size_t number) const {
  const OnnxNode& node = *nodes_[number];
  if (!is_function(node.op_type)) return "";
  const std::uint16_t own = match::op_class(node.op_type);
  std::string whole;
  for (const std::int32_t operation : placed_[number].own_operations()) {
    const auto forms = functions_of(operation);
    const auto has_both = [&](std::uint16_t other) {
      return std::ranges::any_of(forms,
                                 [&](const Classes& each) { return each.contains(own) && each.contains(other); });
    };
    const auto stands = std::ranges::find_if(forms, [&](const Classes& form) {
      const std::uint16_t complete = *form.begin();
      return form.size() == 1 && complete != own && standing_.at(operation).contains(complete) && !has_both(complete);
    });
    if (stands == forms.end()) return "";
    const auto known = operators::all_onnx_operators();
    whole = *stands->begin() < known.size() ? std::string(known[*stands->begin()].name) : "another operator";
  }
  return whole.empty() ? "" : "stands beside " + whole + ", which computes all of its operation";
}

std::string WholeOperators::lone_part(std::size_t number) const {
  const OnnxNode& node = *nodes_[number];
  if (!is_function(node.op_type) || !node.domain.empty()) return "";
  const std::uint16_t own = match::op_class(node.op_type);
  const auto& operations = placed_[number].own_operations();
  if (operations.size() != 1) return "";
  const auto forms = functions_of(operations[0]);
  if (forms.empty() || standing_.at(operations[0]).size() != 1) return "";
  for (const Classes& form : forms) {
    for (const std::uint16_t each : form) {
      if (each == own || may_replace(own, each)) return "";
    }
  }
  return "is at most a part of what the program computes here";
}

std::string WholeOperators::other_sign(const OnnxNode& node, const Operations& operations) const {
  const bool subtracts = node.op_type == "Sub";
  if ((!subtracts && node.op_type != "Add") || node.inputs.size() != 2) return "";
  const bool program_subtracts = any_has(operations, "Sub") || any_has(operations, "Neg");
  const bool program_adds = any_has(operations, "Add");
  if (subtracts ? program_subtracts : (program_adds || !program_subtracts)) return "";
  const auto is_number = [&](std::string_view value) {
    return constant_of(value, tensors_) != no_tensor && !is_of_parameters(value);
  };
  if (subtracts ? is_number(node.inputs[1]) : std::ranges::any_of(node.inputs, is_number)) return "";
  return subtracts ? "subtracts what the program adds" : "adds what the program subtracts";
}

std::string WholeOperators::other_power(const OnnxNode& node, const Operations& operations) const {
  if (node.op_type != "Pow" || node.inputs.size() != 2) return "";
  if (constant_of(node.inputs[1], tensors_) != no_tensor && !is_of_parameters(node.inputs[1])) return "";
  bool is_known = false;
  operations_.for_each_node(operations, [&](const OperationForms::FormNode& form) {
    is_known = is_known || (form.node->op_type == "Pow" && form.graph->constant(form.node->inputs[1]) == nullptr);
  });
  return is_known ? "" : "its exponent is no number of the program";
}

bool WholeOperators::any_has(const Operations& operations, std::string_view op_type) const {
  return std::ranges::any_of(operations,
                             [&](std::int32_t each) { return operations_.has(each, match::op_class(op_type)); });
}

bool WholeOperators::is_of_parameters(std::string_view value) const {
  const TensorNumber tensor = constant_of(value, tensors_);
  if (tensor == no_tensor || !derivations_[static_cast<std::size_t>(tensor)].expression) return false;
  bool has_parameter = false;
  for_each_parameter(*derivations_[static_cast<std::size_t>(tensor)].expression,
                     [&](const ParameterStep&) { has_parameter = true; });
  return has_parameter;
}

}  // namespace whence::comparison
