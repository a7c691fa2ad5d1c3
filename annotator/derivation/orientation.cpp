#include "annotator/derivation/orientation.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "annotator/onnx_file/node_attributes.h"

namespace whence::derivation {
namespace {

constexpr int longest = 8;  // a chain of movements between a weight and its product

// Returns whether an expression is a complete square parameter, transposed or not; "" in `name` otherwise.
bool transposes(const Expression& expression, std::string& name) {
  if (const auto* const parameter = std::get_if<ParameterStep>(&expression.step)) {
    const bool is_square = parameter->dims.size() == 2 && parameter->dims[0] == parameter->dims[1];
    if (is_square && !parameter->is_computed()) name = parameter->name;
    return false;
  }
  if (std::holds_alternative<CastStep>(expression.step) || std::holds_alternative<QuantiseStep>(expression.step))
    return transposes(expression.inputs.at(0), name);
  if (std::holds_alternative<TransposeStep>(expression.step)) return !transposes(expression.inputs.at(0), name);
  return false;
}

// Returns the operand of a product that is its weight; nullopt for other operators.
std::optional<std::size_t> weight_slot(std::string_view op_type) {
  static const std::set<std::string_view> second = {
      "DynamicQuantizeMatMul", "FusedGemm",  "FusedMatMul", "Gemm", "MatMul", "MatMulInteger",
      "MatMulIntegerToFloat",  "MatMulNBits"};
  if (op_type == "QLinearMatMul" || op_type == "QGemm") return 3;
  return second.contains(op_type) ? std::optional<std::size_t>(1) : std::nullopt;
}

bool convolves(std::string_view op_type) {
  static const std::set<std::string_view> convolutions = {"Conv", "ConvInteger", "ConvTranspose", "FusedConv",
                                                          "QLinearConv"};
  return convolutions.contains(op_type);
}

// Returns the parameter of which a tensor is a transposed, rounded copy with other axes after the channels; "" for
// others.
std::string turned_kernel(const Expression& expression) {
  constexpr std::size_t channel_axes = 2;
  if (std::holds_alternative<CastStep>(expression.step) || std::holds_alternative<QuantiseStep>(expression.step))
    return turned_kernel(expression.inputs.at(0));
  const auto* const transpose = std::get_if<TransposeStep>(&expression.step);
  if (transpose == nullptr) return "";
  bool keeps = true;
  for (std::size_t i = channel_axes; i < transpose->order.size(); ++i)
    keeps = keeps && transpose->order[i] == static_cast<std::int64_t>(i);
  const auto* const parameter = std::get_if<ParameterStep>(&expression.inputs.at(0).step);
  return keeps || parameter == nullptr ? "" : parameter->name;
}

// Adds to `found` how products read a value as their second operand.
void add_readers(const FileTensors& tensors, std::string_view value, bool transposed, int depth,
                 std::set<bool>& found) {
  for (const onnx_file::OnnxNode* node : tensors.readers(value)) {
    const auto slot = static_cast<std::size_t>(std::ranges::find(node->inputs, value) - node->inputs.begin());
    if (slot == weight_slot(node->op_type)) {
      // Blocks are stored by output, as Gemm's transB.
      const bool is_turned = node->op_type == "MatMulNBits" || onnx_file::integer_attribute(*node, "transB", 0) != 0;
      found.insert(transposed != is_turned);
    }
    const bool passes = node->op_type == "DequantizeLinear" || node->op_type == "Cast" || node->op_type == "Identity";
    const bool is_transpose = node->op_type == "Transpose";
    if ((passes || is_transpose) && slot == 0 && depth < longest && !node->outputs.empty()) {
      add_readers(tensors, node->outputs[0], transposed != is_transpose, depth + 1, found);
    }
  }
}

}  // namespace

Orientations::Orientations(const std::vector<ProgramForm>& forms) {
  for (const ProgramForm& form : forms) {
    const graph::Graph& graph = *form.graph;
    for (const graph::GraphNode& node : graph.nodes) {
      if (!node.removed && convolves(node.op_type) && node.inputs.size() > 1) {
        const graph::Initializer* const kernel = graph.initializer(node.inputs[1]);
        if (kernel != nullptr && kernel->parameter && !kernel->rearranged)
          kernels_.insert(graph.values[static_cast<std::size_t>(kernel->value)].name);
      }
      if (node.removed || weight_slot(node.op_type) != std::size_t{1} || node.inputs.size() < 2) continue;
      bool transposed = node.int_attribute("transB", 0) != 0;
      graph::GraphValueId value = node.inputs[1];
      for (int steps = 0; steps < longest && value != graph::no_value; ++steps) {
        const graph::GraphValue& known = graph.values[static_cast<std::size_t>(value)];
        if (known.initializer >= 0) {
          const graph::Initializer& weight = graph.initializers[static_cast<std::size_t>(known.initializer)];
          // whence names a transposed parameter after it.
          static constexpr std::string_view ending = ".T";
          const bool is_turned = known.name.ends_with(ending);
          const std::string name = known.name.substr(0, known.name.size() - (is_turned ? ending.size() : 0));
          if (is_turned || (weight.parameter && !weight.rearranged)) transposed_[name].insert(transposed != is_turned);
          break;
        }
        const graph::GraphNode* const maker = graph.producer(value);
        if (maker == nullptr) break;
        if (maker->op_type != "Transpose" && maker->op_type != "Cast" && maker->op_type != "Identity") break;
        transposed = transposed != (maker->op_type == "Transpose");
        value = maker->inputs[0];
      }
    }
  }
}

bool Orientations::has_turned_kernel(const FileTensors& tensors, TensorNumber tensor,
                                     const Expression& expression) const {
  const auto uses = tensors.final_uses(tensors[tensor]);
  const bool is_kernel = std::ranges::any_of(uses, [](const Use& use) { return convolves(use.node->op_type); });
  return is_kernel && kernels_.contains(turned_kernel(expression));
}

bool Orientations::is_transposed(const FileTensors& tensors, TensorNumber tensor, const Expression& expression) const {
  if (has_turned_kernel(tensors, tensor, expression)) return true;
  std::string name;
  const bool transposed = transposes(expression, name);
  const auto expected = transposed_.find(name);
  if (name.empty() || expected == transposed_.end()) return false;
  std::set<bool> found;
  add_readers(tensors, tensors[tensor].name, transposed, 0, found);
  return !found.empty() && std::ranges::none_of(found, [&](bool each) { return expected->second.contains(each); });
}

}  // namespace whence::derivation
