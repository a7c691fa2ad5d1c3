#include "annotator/comparison/stated_integers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

namespace whence::comparison {

using derivation::Contents;
using derivation::FileTensors;
using derivation::integers_in;
using derivation::no_tensor;
using derivation::TensorNumber;

namespace {

using onnx_file::OnnxNode;
using Integers = std::vector<std::int64_t>;

constexpr std::int64_t most_elements = 4096;

enum class Meaning : std::uint8_t { axes, indices, numbers };

struct Slot {
  std::size_t place = 0;
  Meaning meaning = Meaning::numbers;
};

std::vector<Slot> slots_of(std::string_view op_type) {
  if (op_type == "CumSum" || op_type.starts_with("Reduce")) return {{1, Meaning::axes}};
  if (op_type == "Pad") return {{1}, {3, Meaning::axes}};
  if (op_type == "Gather") return {{1, Meaning::indices}};
  if (op_type == "TopK" || op_type == "Trilu" || op_type == "OneHot") return {{1}};
  if (op_type == "Equal" || op_type.starts_with("Greater") || op_type.starts_with("Less")) return {{0}, {1}};
  return {};
}

// Returns the dims of what a node of a form reads; nullptr if the rank is unknown.
const std::vector<Dim>* dims_of(const graph::Graph& graph, const graph::GraphNode& node) {
  if (node.inputs.empty() || node.inputs[0] == graph::no_value) return nullptr;
  const auto& dims = graph.values[static_cast<std::size_t>(node.inputs[0])].dims;
  return dims ? &*dims : nullptr;
}

bool are_equal_axes(Integers a, Integers b, const std::vector<Dim>* dims) {
  for (Integers* const axes : {&a, &b}) {
    for (std::int64_t& axis : *axes) {
      if (dims != nullptr && axis < 0) axis += static_cast<std::int64_t>(dims->size());
    }
    std::ranges::sort(*axes);
  }
  return a == b;
}

// Without the size of the axis, indices from the front and from the end cannot be compared.
bool are_equal_indices(const Integers& a, const Integers& b, std::int64_t axis, const std::vector<Dim>* dims) {
  if (dims != nullptr && axis < 0) axis += static_cast<std::int64_t>(dims->size());
  const bool is_known = dims != nullptr && axis >= 0 && axis < static_cast<std::int64_t>(dims->size());
  const Dim* const dim = is_known ? &(*dims)[static_cast<std::size_t>(axis)] : nullptr;
  const std::int64_t size = dim != nullptr && dim->is_static() ? dim->size : 0;
  return std::ranges::equal(a, b, [&](std::int64_t one, std::int64_t other) {
    if (size == 0 && (one < 0) != (other < 0)) return true;
    return (one < 0 ? one + size : one) == (other < 0 ? other + size : other);
  });
}

bool are_equal(const Integers& theirs, const Integers& ours, Meaning meaning, const OperationForms::FormNode& form) {
  const std::vector<Dim>* const dims = dims_of(*form.graph, *form.node);
  switch (meaning) {
    case Meaning::axes:
      return are_equal_axes(theirs, ours, dims);
    case Meaning::indices:
      return are_equal_indices(theirs, ours, form.node->int_attribute("axis", 0), dims);
    case Meaning::numbers:
      break;
  }
  return theirs == ours;
}

std::string to_text(const Integers& numbers) {
  constexpr std::size_t shown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(numbers.size(), shown); ++i)
    text += (i > 0 ? "," : "") + std::to_string(numbers[i]);
  return numbers.size() > shown ? text + ",..." : text;
}

}  // namespace

std::string other_integers(const OnnxNode& node, const std::vector<std::int32_t>& operations,
                           const OperationForms& forms, const FileTensors& tensors, Contents& contents) {
  for (const Slot& slot : slots_of(node.op_type)) {
    const TensorNumber tensor = slot.place < node.inputs.size() ? tensors.find(node.inputs[slot.place]) : no_tensor;
    if (tensor == no_tensor) continue;
    const auto theirs = integers_in(contents.data(tensors[tensor]), most_elements);
    if (!theirs) continue;
    bool is_equal = false;
    std::optional<Integers> expected;
    forms.for_each_node(operations, [&](const OperationForms::FormNode& form) {
      if (form.node->op_type != node.op_type || slot.place >= form.node->inputs.size()) return;
      const TensorData* const constant = form.graph->constant(form.node->inputs[slot.place]);
      const auto ours = constant == nullptr ? std::nullopt : integers_in(*constant, most_elements);
      // One of another size is of another step of the operation.
      if (!ours || ours->size() != theirs->size()) return;
      is_equal = is_equal || are_equal(*theirs, *ours, slot.meaning, form);
      expected = ours;
    });
    if (expected && !is_equal) return "states " + to_text(*theirs) + ", the program " + to_text(*expected);
  }
  return "";
}

}  // namespace whence::comparison
