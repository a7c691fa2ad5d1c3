#include "annotator/comparison/weight_arithmetic.h"

#include <algorithm>
#include <cmath>

#include "annotator/comparison/constant_operands.h"
#include "annotator/derivation/parameter_names.h"
#include "annotator/derivation/program_forms.h"

namespace whence::comparison {

using derivation::CastStep;
using derivation::Derivation;
using derivation::Expression;
using derivation::FileTensors;
using derivation::no_tensor;
using derivation::parameter_name;
using derivation::ParameterStep;
using derivation::TensorNumber;
using derivation::Verdict;
using derivation::written_out;

using graph::Graph;
using graph::GraphNode;
using graph::GraphValueId;
using onnx_file::OnnxNode;

namespace {

constexpr int most_conversions = 16;  // a chain of conversions

bool converts(std::string_view op_type) { return op_type == "Cast" || op_type == "CastLike" || op_type == "Identity"; }

GraphValueId before_conversions(const Graph& graph, GraphValueId value) {
  for (int steps = 0; steps < most_conversions && value != graph::no_value; ++steps) {
    const GraphNode* const maker = graph.producer(value);
    if (maker == nullptr || !converts(maker->op_type)) break;
    value = maker->inputs[0];
  }
  return value;
}

// Adds the operations that read a value, perhaps after conversions.
void add_reading(const Graph& graph, GraphValueId value, std::set<std::int32_t>& operations) {
  for (const GraphNode& node : graph.nodes) {
    if (node.removed || std::ranges::find(node.inputs, value) == node.inputs.end()) continue;
    operations.insert(node.origin.ops.begin(), node.origin.ops.end());
    if (converts(node.op_type)) add_reading(graph, node.outputs[0], operations);
  }
}

void add_reading(const FileTensors& tensors, std::string_view value, std::vector<const OnnxNode*>& nodes, int depth) {
  for (const OnnxNode* node : tensors.readers(value)) {
    if (converts(node->op_type) && depth < most_conversions) {
      add_reading(tensors, node->outputs[0], nodes, depth + 1);
    } else {
      nodes.push_back(node);
    }
  }
}

// Returns the parameter that a tensor is, perhaps converted; null for others.
const ParameterStep* whole(const Expression& expression) {
  if (std::holds_alternative<CastStep>(expression.step)) return whole(expression.inputs.at(0));
  return std::get_if<ParameterStep>(&expression.step);
}

}  // namespace

const Graph* WeightArithmetic::recorded() {
  if (!recorded_) recorded_ = written_out(program_);
  return *recorded_ ? &**recorded_ : nullptr;
}

WeightArithmetic::Operands WeightArithmetic::operands_of(const OnnxNode& node) {
  Operands operands;
  for (std::string_view value : node.inputs) {
    for (int steps = 0; steps < most_conversions; ++steps) {
      const OnnxNode* const maker = tensors_.producer(value);
      if (maker == nullptr || !converts(maker->op_type)) break;
      value = maker->inputs[0];
    }
    const TensorNumber tensor = tensors_.find(value);
    if (tensor == no_tensor) return {};
    const Derivation& derivation = derivations_[static_cast<std::size_t>(tensor)];
    if (derivation.expression && whole(*derivation.expression) != nullptr)
      operands.parameter = whole(*derivation.expression);
    else if (derivation.verdict == Verdict::constant)
      operands.number = uniform_number(ConstantOperand{.tensor = tensor}, tensors_, contents_);
  }
  return operands;
}

bool WeightArithmetic::computes(const Graph& graph, const GraphNode& node, const Operands& operands) const {
  bool has_parameter = false, has_number = false;
  for (const GraphValueId input : node.inputs) {
    const GraphValueId value = before_conversions(graph, input);
    const graph::Initializer* const initializer = value == graph::no_value ? nullptr : graph.initializer(value);
    if (initializer == nullptr) return false;
    const std::string name = parameter_name(graph, *initializer);
    const auto& equal = operands.parameter->same_bytes;
    has_parameter =
        has_parameter ||
        (!name.empty() && (name == operands.parameter->name || std::ranges::find(equal, name) != equal.end()));
    const auto number = name.empty() ? uniform_number(initializer->data) : std::nullopt;
    constexpr double rounding = 1e-6;
    has_number = has_number || (number && std::abs(*number - *operands.number) <= rounding * std::abs(*number));
  }
  return has_parameter && has_number;
}

bool WeightArithmetic::is_recorded(const OnnxNode& node, const OperationsOf& operations_of) {
  const bool is_commutative = node.op_type == "Add" || node.op_type == "Mul";
  if (!is_commutative || node.inputs.size() != 2 || node.outputs.empty()) return false;
  const Operands operands = operands_of(node);
  if (operands.parameter == nullptr || !operands.number || recorded() == nullptr) return false;
  std::set<std::int32_t> reading;
  for (const GraphNode& each : recorded()->nodes) {
    if (!each.removed && each.op_type == node.op_type && computes(*recorded(), each, operands))
      add_reading(*recorded(), each.outputs[0], reading);
  }
  std::vector<const OnnxNode*> readers;
  add_reading(tensors_, node.outputs[0], readers, 0);
  return !readers.empty() && std::ranges::all_of(readers, [&](const OnnxNode* reader) {
    return std::ranges::any_of(operations_of(*reader), [&](std::int32_t each) { return reading.contains(each); });
  });
}

}  // namespace whence::comparison
