#include "annotator/comparison/block_layouts.h"

#include <algorithm>

#include "annotator/comparison/packed_products.h"
#include "annotator/onnx_file/node_attributes.h"

namespace whence::comparison {

using derivation::Derivation;
using derivation::Expression;
using derivation::FileTensors;
using derivation::no_tensor;
using derivation::TransposeStep;

using onnx_file::OnnxNode;

namespace {

bool is_of_blocks(const OnnxNode& node) { return node.domain == "com.microsoft.nchwc"; }

// Returns true for operators that compute each element alone, or join channels: those that the runtime lets read
// blocks.
bool keeps_layout(const OnnxNode& node) {
  static const std::set<std::string_view> keeping = {
      "Add",  "Cast",        "Clip",      "Concat",   "Div",       "Elu", "Erf", "Exp",
      "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Mul", "Neg", "QuickGelu",
      "Relu", "Sigmoid",     "Softplus",  "Sqrt",     "Sub",       "Sum", "Tanh"};
  return keeping.contains(node.op_type);
}

// Returns the number of axes with which a weight was put into blocks: 6 with blocks of inputs, 5 without; 0 for others.
std::size_t axes_of_blocks(const Expression& expression) {
  const auto* const step = std::get_if<TransposeStep>(&expression.step);
  std::size_t most = step == nullptr ? 0 : step->order.size();
  for (const Expression& input : expression.inputs) most = std::max(most, axes_of_blocks(input));
  return most;
}

}  // namespace

BlockLayouts::BlockLayouts(const std::vector<const OnnxNode*>& nodes, const onnx_file::OnnxGraph& graph,
                           const FileTensors& tensors, const std::vector<Derivation>& derivations)
    : graph_(graph), tensors_(tensors), derivations_(derivations) {
  for (const OnnxNode* node : nodes) {
    const bool passes_on = keeps_layout(*node) && std::ranges::any_of(node->inputs, [&](std::string_view input) {
                             return blocked_.contains(input);
                           });
    const bool makes = is_of_blocks(*node) && node->op_type != "ReorderOutput";
    if (passes_on || makes) blocked_.insert(node->outputs.begin(), node->outputs.end());
  }
}

bool BlockLayouts::is_constant(std::string_view value) const { return constant_of(value, tensors_) != no_tensor; }

std::optional<bool> BlockLayouts::reads_blocks(const OnnxNode& node) const {
  if (!is_of_blocks(node)) return false;
  if (node.op_type == "ReorderInput") return false;
  if (node.op_type != "Conv" || node.inputs.size() < 2) return true;
  if (onnx_file::integer_attribute(node, "group", 1) > 1) return std::nullopt;
  const auto weight = constant_of(node.inputs[1], tensors_);
  if (weight == no_tensor || !derivations_[static_cast<std::size_t>(weight)].expression) return std::nullopt;
  constexpr std::size_t with_inputs = 6, without = 5;
  const std::size_t axes = axes_of_blocks(*derivations_[static_cast<std::size_t>(weight)].expression);
  if (axes == with_inputs) return true;
  return axes == without ? std::optional(false) : std::nullopt;
}

std::string BlockLayouts::difference(const OnnxNode& node) const {
  if (blocked_.empty()) return "";
  const auto is_blocked = [&](std::string_view value) { return blocked_.contains(value); };
  for (const std::string_view output : node.outputs) {
    const bool is_output =
        std::ranges::find(graph_.outputs, output, &onnx_file::OnnxValue::name) != graph_.outputs.end();
    if (is_output && is_blocked(output)) return "its result is an output in blocks of channels";
  }
  if (!is_of_blocks(node) && keeps_layout(node)) {
    const bool is_mixed =
        std::ranges::any_of(node.inputs, is_blocked) && std::ranges::any_of(node.inputs, [&](std::string_view input) {
          return !input.empty() && !is_blocked(input) && !is_constant(input);
        });
    return is_mixed ? "reads a value in blocks of channels and one that is not" : "";
  }
  if (node.inputs.empty()) return "";
  const auto reads = reads_blocks(node);
  if (!reads || *reads == is_blocked(node.inputs[0])) return "";
  return *reads ? "reads blocks of channels, which its operand is not in"
                : "reads a value that is in blocks of channels";
}

}  // namespace whence::comparison
