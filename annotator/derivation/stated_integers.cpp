#include "annotator/derivation/stated_integers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "annotator/program/tensor_values.h"

namespace whence::derivation {
namespace {

using onnx_file::OnnxNode;
using Integers = std::vector<std::int64_t>;

enum class Meaning : std::uint8_t { axes, numbers };

struct Slot {
  std::size_t place = 0;
  Meaning meaning = Meaning::numbers;
};

std::vector<Slot> slots_of(std::string_view op_type) {
  if (op_type == "CumSum" || op_type.starts_with("Reduce")) return {{1, Meaning::axes}};
  if (op_type == "Pad") return {{1}, {3, Meaning::axes}};
  if (op_type == "Gather" || op_type == "TopK" || op_type == "Trilu" || op_type == "OneHot") return {{1}};
  if (op_type == "Equal" || op_type.starts_with("Greater") || op_type.starts_with("Less")) return {{0}, {1}};
  return {};
}

std::optional<Integers> integers_in(const TensorData& data) {
  constexpr std::int64_t most = 4096;
  const auto elements =
      is_integral(data.dtype) && data.element_count() <= most ? program::Elements::of(data) : std::nullopt;
  if (!elements) return std::nullopt;
  Integers numbers;
  for (std::size_t i = 0; i < elements->size(); ++i) numbers.push_back(elements->integer(i));
  return numbers;
}

// Counts axes from the front, in ascending order; unchanged if the rank is unknown.
Integers from_front(Integers axes, const graph::Graph& graph, const graph::GraphNode& node) {
  if (node.inputs.empty() || node.inputs[0] == graph::no_value) return axes;
  const auto& dims = graph.values[static_cast<std::size_t>(node.inputs[0])].dims;
  for (std::int64_t& axis : axes) {
    if (dims && axis < 0) axis += static_cast<std::int64_t>(dims->size());
  }
  std::ranges::sort(axes);
  return axes;
}

// Numbers from the front and from the end cannot be compared without the size.
bool are_equal(const Integers& a, const Integers& b) {
  return std::ranges::equal(
      a, b, [](std::int64_t one, std::int64_t other) { return one == other || (one < 0) != (other < 0); });
}

std::string to_text(const Integers& numbers) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(numbers.size(), most); ++i)
    text += (i > 0 ? "," : "") + std::to_string(numbers[i]);
  return numbers.size() > most ? text + ",..." : text;
}

}  // namespace

std::string other_integers(const OnnxNode& node, const std::vector<std::int32_t>& operations,
                           const OperationForms& forms, const FileTensors& tensors, Contents& contents) {
  for (const Slot& slot : slots_of(node.op_type)) {
    const TensorNumber tensor = slot.place < node.inputs.size() ? tensors.find(node.inputs[slot.place]) : no_tensor;
    if (tensor == no_tensor) continue;
    const auto theirs = integers_in(contents.data(tensors[tensor]));
    if (!theirs) continue;
    bool is_equal = false, is_computed = false;
    std::optional<Integers> expected;
    forms.for_each_node(operations, [&](const OperationForms::FormNode& form) {
      if (form.node->op_type != node.op_type || slot.place >= form.node->inputs.size()) return;
      const TensorData* const constant = form.graph->constant(form.node->inputs[slot.place]);
      const auto ours = constant == nullptr ? std::nullopt : integers_in(*constant);
      is_computed = is_computed || !ours;
      if (!ours) return;
      const bool are_axes = slot.meaning == Meaning::axes;
      is_equal = is_equal ||
                 (are_axes ? from_front(*theirs, *form.graph, *form.node) == from_front(*ours, *form.graph, *form.node)
                           : ours->size() != theirs->size() || are_equal(*theirs, *ours));
      expected = ours;
    });
    if (expected && !is_equal && !is_computed)
      return "states " + to_text(*theirs) + ", the program " + to_text(*expected);
  }
  return "";
}

}  // namespace whence::derivation
