#include "annotator/comparison/operator_fit.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "annotator/comparison/wiring.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/match/op_class.h"
#include "annotator/operators/onnx_operators.h"
#include "annotator/origin/confidence.h"
#include "schema/printable.h"

namespace whence::comparison {

using derivation::is_movement;

namespace {

using Names = std::vector<std::string_view>;

// An operator, and others for which exporters and tools write it: those of which it is a part, and those that are its
// parts.
struct Row {
  std::string_view name;
  Names others = {};
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      // Sums and products: biases, masks that are added, scales, activations and norms that are written out.
      {"Add",
       {"Attention", "BatchNormalization", "Conv", "ConvTranspose", "Gelu", "GRU", "GroupNormalization",
        "InstanceNormalization", "LayerNormalization", "LSTM", "MatMul", "RMSNormalization", "RNN", "Sub", "Where"}},
      {"Div",
       {"Attention", "Gelu", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "LpNormalization",
        "Mul", "Reciprocal", "RMSNormalization", "Softmax"}},
      {"Mul",
       {"Attention", "BatchNormalization", "Div", "Gelu", "GroupNormalization", "GRU", "HardSigmoid", "HardSwish",
        "InstanceNormalization", "LayerNormalization", "LSTM", "Mish", "Pow", "RMSNormalization", "RNN", "Sigmoid",
        "Swish"}},
      {"Pow", {"LayerNormalization", "LpNormalization", "Mul", "RMSNormalization", "ReduceL2", "Reciprocal", "Sqrt"}},
      {"Reciprocal", {"Div", "Pow", "RMSNormalization"}},
      {"Sqrt",
       {"Attention", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "Pow", "ReduceL2",
        "RMSNormalization"}},
      {"Sub", {"Add", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "Neg"}},
      {"Neg", {"Sub"}},
      {"ReduceMean",
       {"AveragePool", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "RMSNormalization"}},
      {"ReduceSum", {"Einsum", "MatMul", "ReduceL1", "ReduceL2", "Softmax", "LogSoftmax"}},
      {"InstanceNormalization", {"GroupNormalization"}},
      {"MatMul", {"Attention", "Einsum", "GRU", "LSTM", "RNN"}},
      {"Where", {"Attention", "Softplus"}},
      {"Greater", {"Atan", "Softplus"}},
      {"IsNaN", {"Attention", "Softmax"}},
      {"And", {"Mul"}},
      // Operators of runtimes and newer opsets for several others.
      {"Attention", {"Softmax"}},
      {"Gelu", {"Erf", "Tanh"}},
      {"LayerNormalization", {"ReduceMean"}},
      {"SimplifiedLayerNormalization", {"ReduceMean", "RMSNormalization"}},
      {"RMSNormalization", {"ReduceMean"}},
      {"Swish", {"Sigmoid"}},
      {"QuickGelu", {"Sigmoid"}},
      {"Upsample", {"Resize"}},
      // Selections.
      {"Gather", {"GatherElements", "GatherND", "Slice", "Split"}},
      {"GatherBlockQuantized", {"Gather"}},
      {"GatherElements", {"Gather", "GatherND"}},
      {"GatherND", {"Gather", "GatherElements"}},
      {"Slice", {"Gather", "Split"}},
      // Functions.
      {"AveragePool", {"ReduceMean"}},
      {"Celu", {"Elu"}},
      {"Cosh", {"Exp"}},
      {"Elu", {"Celu", "Selu"}},
      {"Erf", {"Gelu"}},
      {"Exp", {"Softmax", "LogSoftmax", "Sigmoid", "Softplus", "Mish", "Elu", "Selu", "Celu", "Pow"}},
      {"Floor", {"Div", "Mod"}},
      {"HardSigmoid", {"HardSwish", "Clip"}},
      {"HardSwish", {"HardSigmoid", "Clip"}},
      {"LeakyRelu", {"PRelu"}},
      {"LogSoftmax", {"Softmax", "Log"}},
      {"Loop", {"Scan", "LSTM", "GRU", "RNN"}},
      {"MaxPool", {"ReduceMax"}},
      {"Mish", {"Tanh", "Softplus"}},
      {"PRelu", {"LeakyRelu"}},
      {"ReduceMax", {"Softmax", "LogSoftmax", "MaxPool", "ArgMax"}},
      {"Relu", {"Clip", "Max", "LSTM", "GRU", "RNN"}},
      {"Scan", {"Loop", "LSTM", "GRU", "RNN"}},
      {"Selu", {"Elu"}},
      {"Sigmoid", {"Gelu", "LSTM", "GRU", "RNN", "Swish", "HardSwish", "LogSigmoid"}},
      {"Sinh", {"Exp"}},
      {"Softmax", {"Attention", "LogSoftmax", "Exp"}},
      {"Softplus", {"Mish", "Log", "Exp"}},
      {"Tan", {"Sin"}},
      {"Tanh", {"Gelu", "LSTM", "GRU", "RNN", "Mish"}},
  };
  return all;
}

}  // namespace

std::string unknown_domain(const onnx_file::OnnxNode& node) {
  if (node.domain.empty() || node.domain == "ai.onnx" || origin::is_of_runtime(node.domain)) return "";
  return "an operator of the domain '" + printable(node.domain) + "', whose meaning is unknown";
}

std::string misfit(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations,
                   const match::Reference& reference) {
  if (std::string unknown = unknown_domain(node); !unknown.empty()) return unknown;
  const std::uint16_t own = match::op_class(node.op_type);
  std::set<std::uint16_t> accepted = {own};
  const auto row = std::ranges::find_if(rows(), [&](const Row& each) { return match::op_class(each.name) == own; });
  if (row != rows().end()) {
    for (const std::string_view other : row->others) accepted.insert(match::op_class(other));
  }
  std::set<std::string> used;
  for (const std::int32_t operation : operations) {
    const auto& classes = reference.classes_of_unit[match::UnitIndex(operation)];
    // One class has all forms of Gelu: that with a Sigmoid has no Tanh.
    const bool has_sigmoid = std::ranges::find(classes, match::op_class("Sigmoid")) != classes.end();
    const bool is_other_form = node.op_type == "Tanh" && has_sigmoid;
    for (const std::uint16_t each : classes) {
      if (accepted.contains(each) && !(is_other_form && each == match::op_class("Gelu"))) return "";
      const auto known = operators::all_onnx_operators();
      if (each < known.size() && !is_movement(known[each].name)) used.insert(std::string(known[each].name));
    }
  }
  std::string names;
  for (const std::string& name : used) names += (names.empty() ? "" : ", ") + name;
  return "the program has other operators here: " + names;
}

}  // namespace whence::comparison
