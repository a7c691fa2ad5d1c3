#include "annotator/comparison/causal_masks.h"

#include <algorithm>
#include <set>
#include <vector>

#include "annotator/comparison/wiring.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/program/tensor_values.h"

namespace whence::comparison {

using derivation::FileTensors;
using derivation::is_movement;
using derivation::no_tensor;
using derivation::TensorNumber;

using graph::Graph;
using graph::GraphNode;
using graph::GraphValueId;
using onnx_file::OnnxNode;

namespace {

// Returns true for conditions that hold, or numbers that are 0, only where the column is not after the row.
bool is_causal_table(const TensorData& mask) {
  const auto elements = program::Elements::of(mask);
  const std::size_t rank = mask.shape.size();
  if (!elements || rank < 2 || mask.shape[rank - 1] != mask.shape[rank - 2] || mask.shape[rank - 1] < 2) return false;
  const auto size = static_cast<std::size_t>(mask.shape[rank - 1]);
  constexpr double masked = -1e4;
  for (std::size_t i = 0; i < elements->size(); ++i) {
    const std::size_t row = i / size % size, column = i % size;
    const double number = elements->number(i);
    const bool is_seen = mask.dtype == DType::boolean ? number != 0 : number > masked;
    if (is_seen != (column <= row)) return false;
  }
  return true;
}

// Returns true if a value counts positions along its last axis (`rows`: the one before), moved and converted only.
bool counts_positions(const Graph& graph, GraphValueId value, bool rows) {
  const auto& dims = graph.values[static_cast<std::size_t>(value)].dims;
  if (!dims || dims->size() < 2) return false;
  const std::size_t rank = dims->size();
  if ((*dims)[rank - (rows ? 1 : 2)].size != 1) return false;
  constexpr int longest = 20;  // a chain of movements
  for (int steps = 0; steps < longest; ++steps) {
    const GraphNode* const maker = graph.producer(value);
    if (maker == nullptr || maker->inputs.empty()) return false;
    if (maker->op_type == "Range") return true;
    if (maker->op_type == "Add" && !depends_on_input(graph, maker->inputs[1])) {
      // Positions after those of a cache.
    } else if (!is_movement(maker->op_type)) {
      return false;
    }
    value = maker->inputs[0];
  }
  return false;
}

// Returns true for the comparison column <= row.
bool compares_positions(const Graph& graph, const GraphNode& node) {
  const bool is_less = node.op_type == "LessOrEqual";
  if ((!is_less && node.op_type != "GreaterOrEqual") || node.inputs.size() != 2) return false;
  return counts_positions(graph, node.inputs[is_less ? 0 : 1], false) &&
         counts_positions(graph, node.inputs[is_less ? 1 : 0], true);
}

}  // namespace

bool is_causal_mask(const Graph& graph, GraphValueId mask) {
  static const std::set<std::string_view> keeping = {"Cast", "Expand", "Identity", "Reshape", "Unsqueeze", "Where"};
  constexpr std::size_t most = 50;  // nodes before the mask
  std::vector<GraphValueId> open = {mask};
  for (std::size_t i = 0; i < open.size() && i < most; ++i) {
    const TensorData* const constant = graph.constant(open[i]);
    if (constant != nullptr && is_causal_table(*constant)) return true;
    const GraphNode* const maker = graph.producer(open[i]);
    if (maker == nullptr || maker->inputs.empty()) continue;
    if (compares_positions(graph, *maker)) return true;
    // What one of the operands hides is hidden.
    if (maker->op_type == "And" || maker->op_type == "Add") {
      open.insert(open.end(), maker->inputs.begin(), maker->inputs.end());
    } else if (keeping.contains(maker->op_type)) {
      // Where(condition, 0, lowest) is the condition as numbers.
      open.push_back(maker->inputs[0]);
    }
  }
  return false;
}

bool depends_on_input(const Graph& graph, GraphValueId value) {
  std::set<GraphValueId> seen = {value};
  std::vector<GraphValueId> open = {value};
  while (!open.empty()) {
    const GraphValueId at = open.back();
    open.pop_back();
    if (std::ranges::find(graph.inputs, at) != graph.inputs.end()) return true;
    const GraphNode* const maker = graph.producer(at);
    if (maker == nullptr || maker->op_type == "Shape" || maker->op_type == "Size") continue;
    for (const GraphValueId input : maker->inputs) {
      if (input != graph::no_value && seen.insert(input).second) open.push_back(input);
    }
  }
  return false;
}

bool may_be_causal(const FileTensors& tensors, std::string_view mask) {
  static const std::set<std::string_view> comparing = {"Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Trilu",
                                                       "If",      "CumSum",         "Sub"};
  constexpr std::size_t most = 200;  // nodes before the mask
  std::vector<std::string_view> open = {mask};
  for (std::size_t i = 0; i < open.size(); ++i) {
    const TensorNumber tensor = tensors.find(open[i]);
    if (i == most || (tensor != no_tensor && tensors[tensor].tensor->dims.size() > 1)) return true;
    const OnnxNode* const maker = tensors.producer(open[i]);
    if (maker == nullptr || maker->op_type == "Shape") continue;
    if (comparing.contains(maker->op_type)) return true;
    open.insert(open.end(), maker->inputs.begin(), maker->inputs.end());
  }
  return false;
}

}  // namespace whence::comparison
