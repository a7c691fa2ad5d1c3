#include "annotator/comparison/repetitions.h"

#include <algorithm>

#include "annotator/program/tensor_values.h"

namespace whence::comparison {

using derivation::integers_in;
using derivation::no_tensor;
using derivation::TensorNumber;

namespace {

using onnx_file::OnnxNode;

// The order in which a choice of rows repeats them: each of them `each` times in a row, then all of them `all` times.
struct RowOrder {
  std::size_t axis = 0, rank = 0;  // of the value
  std::int64_t size = 0;           // of the axis
  std::int64_t each = 1, all = 1;
};

// Returns nullopt for choices that do not repeat all rows in a regular order, and for axes of dynamic size.
std::optional<RowOrder> row_order(const graph::Graph& graph, const graph::GraphNode& node) {
  if (node.op_type != "Gather" || node.inputs.size() != 2) return std::nullopt;
  const auto rows = graph.integers(node.inputs[1]);
  const auto& dims = graph.values[static_cast<std::size_t>(node.inputs[0])].dims;
  if (!rows || rows->empty() || !dims) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(dims->size());
  std::int64_t axis = node.int_attribute("axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank || !(*dims)[static_cast<std::size_t>(axis)].is_static()) return std::nullopt;
  RowOrder order = {static_cast<std::size_t>(axis), dims->size(), (*dims)[static_cast<std::size_t>(axis)].size};
  const auto count = static_cast<std::int64_t>(rows->size());
  if (order.size == 0 || count % order.size != 0) return std::nullopt;
  order.each = std::ranges::find_if(*rows, [](std::int64_t row) { return row != 0; }) - rows->begin();
  if (order.each == 0 || count % (order.size * order.each) != 0) return std::nullopt;
  order.all = count / (order.size * order.each);
  for (std::int64_t i = 0; i < count; ++i) {
    if ((*rows)[static_cast<std::size_t>(i)] != i / order.each % order.size) return std::nullopt;
  }
  return order;
}

}  // namespace

bool repeats_elements(const graph::Graph& graph, const graph::GraphNode& node) {
  return node.op_type == "Tile" || row_order(graph, node).has_value();
}

std::optional<std::vector<std::int64_t>> Repetitions::integers(const OnnxNode& node, std::size_t slot) const {
  const TensorNumber tensor = slot < node.inputs.size() ? tensors_.find(node.inputs[slot]) : no_tensor;
  constexpr std::int64_t most = 16;  // axes
  if (tensor == no_tensor) return std::nullopt;
  return integers_in(contents_.data(tensors_[tensor]), most);
}

std::optional<std::size_t> Repetitions::added_axis(std::string_view value, std::size_t rank) const {
  constexpr int longest = 8;  // a chain of quantisers
  const OnnxNode* maker = tensors_.producer(value);
  const auto keeps = [](const OnnxNode& node) {
    return node.op_type == "QuantizeLinear" || node.op_type == "DequantizeLinear" || node.op_type == "Cast" ||
           node.op_type == "Identity";
  };
  for (int steps = 0; steps < longest && maker != nullptr && keeps(*maker); ++steps)
    maker = tensors_.producer(maker->inputs[0]);
  const auto added = maker != nullptr && maker->op_type == "Unsqueeze" ? integers(*maker, 1) : std::nullopt;
  if (!added || added->size() != 1) return std::nullopt;
  const std::int64_t axis = added->front() < 0 ? added->front() + static_cast<std::int64_t>(rank) : added->front();
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return std::nullopt;
  return static_cast<std::size_t>(axis);
}

std::optional<Repetitions::Repeated> Repetitions::repeated_by(const OnnxNode& node) const {
  if (node.op_type != "Tile" && node.op_type != "Expand") return std::nullopt;
  const auto counts = integers(node, 1);
  if (!counts) return std::nullopt;
  Repeated repeated = {.rank = counts->size()};
  if (const auto added = added_axis(node.inputs[0], counts->size())) {
    repeated.axis = *added;
    repeated.is_new = true;
  } else if (node.op_type == "Tile") {
    const auto first = std::ranges::find_if(*counts, [](std::int64_t count) { return count != 1; });
    if (first == counts->end()) return std::nullopt;
    repeated.axis = static_cast<std::size_t>(first - counts->begin());
  } else {
    return std::nullopt;  // Expand states sizes
  }
  repeated.count = (*counts)[repeated.axis];
  for (std::size_t i = 0; node.op_type == "Tile" && i < counts->size(); ++i) {
    if (i != repeated.axis && (*counts)[i] != 1) return std::nullopt;
  }
  return repeated;
}

bool Repetitions::fits(const OnnxNode& node, const std::vector<std::int32_t>& operations) const {
  const auto own = repeated_by(node);
  bool is_found = false;
  if (own) {
    operations_.for_each_node(operations, [&](const OperationForms::FormNode& form) {
      const auto order = row_order(*form.graph, *form.node);
      if (!order || own->rank != order->rank + (own->is_new ? 1 : 0)) return;
      const bool repeats_each = own->is_new && own->axis == order->axis + 1;
      if (!repeats_each && own->axis != order->axis) return;
      const bool is_same = order->size == 1 ? own->count == order->each * order->all
                                            : order->each == (repeats_each ? own->count : 1) &&
                                                  order->all == (repeats_each ? 1 : own->count);
      is_found = is_found || is_same;
    });
  }
  return is_found;
}

std::string Repetitions::difference(const OnnxNode& node, const std::vector<std::int32_t>& operations) const {
  const auto own = repeated_by(node);
  bool has_order = false;
  if (own) {
    operations_.for_each_node(operations, [&](const OperationForms::FormNode& form) {
      const auto order = row_order(*form.graph, *form.node);
      has_order = has_order || (order && order->each * order->all > 1);
    });
  }
  return !has_order || fits(node, operations) ? "" : "repeats elements in another order or number than the program";
}

}  // namespace whence::comparison
