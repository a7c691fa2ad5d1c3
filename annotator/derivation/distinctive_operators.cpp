#include "annotator/derivation/distinctive_operators.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "annotator/match/op_class.h"

namespace whence::derivation {
namespace {

using Names = std::vector<std::string_view>;

// A distinctive operator, and the operators that exporters write out with it.
struct Row {
  std::string_view name;
  Names wholes = {};
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"Abs"},
      {"Acos"},
      {"Acosh"},
      {"ArgMax"},
      {"ArgMin"},
      {"Asin"},
      {"Asinh"},
      {"Atan"},
      {"Atanh"},
      {"AveragePool", {"ReduceMean"}},
      {"Ceil"},
      {"Celu", {"Elu"}},
      {"Cos"},
      {"Cosh", {"Exp"}},
      {"CumSum"},
      {"Elu", {"Celu", "Selu"}},
      {"Erf", {"Gelu"}},
      {"Exp", {"Softmax", "LogSoftmax", "Sigmoid", "Softplus", "Mish", "Elu", "Selu", "Celu", "Pow"}},
      {"Floor", {"Div", "Mod"}},
      {"HardSigmoid", {"HardSwish", "Clip"}},
      {"HardSwish", {"HardSigmoid", "Clip"}},
      {"Hardmax"},
      {"If"},
      {"LeakyRelu", {"PRelu"}},
      {"LogSoftmax", {"Softmax", "Log"}},
      {"Loop", {"Scan", "LSTM", "GRU", "RNN"}},
      {"MaxPool", {"ReduceMax"}},
      {"Mish", {"Tanh", "Softplus"}},
      {"NonZero"},
      {"PRelu", {"LeakyRelu"}},
      {"ReduceMax", {"Softmax", "LogSoftmax", "MaxPool", "ArgMax"}},
      {"ReduceMin"},
      {"ReduceProd"},
      {"Relu", {"Clip", "Max", "LSTM", "GRU", "RNN"}},
      {"Round"},
      {"Scan", {"Loop", "LSTM", "GRU", "RNN"}},
      {"Selu", {"Elu"}},
      {"Sigmoid", {"Gelu", "LSTM", "GRU", "RNN", "Swish", "HardSwish", "LogSigmoid"}},
      {"Sign"},
      {"Sin"},
      {"Sinh", {"Exp"}},
      {"Softmax", {"Attention", "LogSoftmax", "Exp"}},
      {"Softplus", {"Mish", "Log", "Exp"}},
      {"Softsign"},
      {"Tan", {"Sin"}},
      {"Tanh", {"Gelu", "LSTM", "GRU", "RNN", "Mish"}},
      {"ThresholdedRelu"},
      {"TopK"},
  };
  return all;
}

}  // namespace

bool fits_operations(const onnx_file::OnnxNode& node, const match::NodeMatch& found,
                     const match::Reference& reference) {
  const std::uint16_t own = match::op_class(node.op_type);
  const auto row = std::ranges::find_if(rows(), [&](const Row& each) { return match::op_class(each.name) == own; });
  if (row == rows().end()) return true;
  std::set<std::uint16_t> accepted = {own};
  for (const std::string_view whole : row->wholes) accepted.insert(match::op_class(whole));
  return std::ranges::any_of(found.units, [&](match::UnitIndex unit) {
    return std::ranges::any_of(reference.classes_of_unit[unit],
                               [&](std::uint16_t used) { return accepted.contains(used); });
  });
}

}  // namespace whence::derivation
