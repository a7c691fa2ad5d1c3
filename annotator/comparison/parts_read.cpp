#include "annotator/comparison/parts_read.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "annotator/comparison/causal_masks.h"
#include "annotator/comparison/operand_order.h"
#include "annotator/comparison/wiring.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/match/op_class.h"

namespace whence::comparison {

using derivation::integers_in;
using derivation::is_movement;
using derivation::no_tensor;
using derivation::TensorNumber;

namespace {

using onnx_file::OnnxNode;

constexpr int longest_chain = 20;                                           // of movements and choices
constexpr std::int64_t far_end = std::numeric_limits<std::int32_t>::max();  // beyond each axis

bool is_choice(std::string_view op_type) { return op_type == "Slice" || op_type == "Split" || op_type == "Gather"; }

bool moves(std::string_view op_type) { return is_movement(op_type) && op_type != "Split"; }

// Returns true for a product or quotient, by a constant the scaling of a value.
bool scales(std::string_view op_type) { return op_type == "Mul" || op_type == "Div"; }

using Integers = std::vector<std::int64_t>;

// Returns the size of the axis of which a Slice, Split or Gather chooses elements; nullopt if it is dynamic or unknown.
std::optional<std::int64_t> size_of_axis(const graph::Graph& graph, const graph::GraphNode& selection) {
  constexpr std::size_t axes = 3;
  const auto& dims = graph.values[static_cast<std::size_t>(selection.inputs[0])].dims;
  std::int64_t axis = selection.int_attribute("axis", 0);
  if (selection.op_type == "Slice") {
    const auto stated = selection.inputs.size() > axes ? graph.integers(selection.inputs[axes]) : std::nullopt;
    if (!stated || stated->size() != 1) return std::nullopt;
    axis = stated->front();
  }
  if (!dims) return std::nullopt;
  if (axis < 0) axis += static_cast<std::int64_t>(dims->size());
  if (axis < 0 || axis >= static_cast<std::int64_t>(dims->size())) return std::nullopt;
  const Dim& dim = (*dims)[static_cast<std::size_t>(axis)];
  return dim.is_static() ? std::optional(dim.size) : std::nullopt;
}

}  // namespace

// `numbers`: the inputs of Slice, without a value where the node has none.
std::optional<PartsRead::Part> PartsRead::sliced(const std::vector<std::optional<Integers>>& numbers) {
  constexpr std::size_t starts = 1, ends = 2, steps = 4;
  if (numbers.size() <= ends || (!numbers[starts] && !numbers[ends])) return std::nullopt;
  Part part;
  for (const auto& [slot, place] : {std::pair(starts, &part.start), std::pair(ends, &part.end)}) {
    if (!numbers[slot]) continue;
    if (numbers[slot]->size() != 1) return std::nullopt;
    *place = numbers[slot]->front();
  }
  if (numbers.size() > steps) {
    if (!numbers[steps] || numbers[steps]->size() != 1) return std::nullopt;
    part.step = numbers[steps]->front();
  }
  return part;
}

PartsRead::Part PartsRead::split(const Integers& sizes, std::size_t place) {
  const auto before = sizes.begin() + static_cast<std::ptrdiff_t>(place);
  const std::int64_t start = std::accumulate(sizes.begin(), before, std::int64_t{0});
  return {start, start + *before, 1, std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0})};
}

bool PartsRead::are_equal(const Part& a, const Part& b) {
  if ((a.is_counted && !b.size) || (b.is_counted && !a.size)) return true;
  const auto are_same = [&](std::optional<std::int64_t> theirs, std::optional<std::int64_t> ours) {
    if (!theirs || !ours) return true;
    const auto from_front = [](std::int64_t place, std::optional<std::int64_t> size) {
      place = std::max(place, -far_end - 1);  // before each axis: the end of a reversal
      if (size && place < 0) place = std::max(place + *size, std::int64_t{-1});
      return std::min(place, size.value_or(far_end));
    };
    const std::int64_t one = from_front(*theirs, a.size ? a.size : b.size);
    const std::int64_t other = from_front(*ours, b.size ? b.size : a.size);
    // Without the size, places from the front and from the end cannot be compared.
    if ((one < 0) != (other < 0)) return true;
    const bool is_scaled = a.size && b.size && *a.size != *b.size;
    return is_scaled ? one * *b.size == other * *a.size : one == other;
  };
  return are_same(a.start, b.start) && are_same(a.end, b.end) && a.step == b.step;
}

std::string PartsRead::text_of(const Parts& parts) {
  std::string text;
  for (const Part& part : parts) {
    const std::string start = part.start ? std::to_string(*part.start) : "?";
    const std::string end = !part.end ? "?" : *part.end >= far_end ? "" : std::to_string(*part.end);
    text += (text.empty() ? "" : ", in ") + start + ":" + end;
    if (part.step != 1) text += ":" + std::to_string(part.step);
    if (part.size) text += " of " + std::to_string(*part.size);
  }
  return text;
}

std::optional<Integers> PartsRead::integers(const OnnxNode& node, std::size_t slot) const {
  const TensorNumber tensor = slot < node.inputs.size() ? tensors_.find(node.inputs[slot]) : no_tensor;
  constexpr std::int64_t most = 64;
  if (tensor == no_tensor || tensors_[tensor].tensor->dims.size() > 1) return std::nullopt;
  return integers_in(contents_.data(tensors_[tensor]), most);
}

std::optional<PartsRead::Part> PartsRead::part_of(const OnnxNode& selection, std::string_view value) const {
  const auto place = static_cast<std::size_t>(std::ranges::find(selection.outputs, value) - selection.outputs.begin());
  if (selection.op_type == "Split") {
    const bool has_sizes = selection.inputs.size() > 1;
    const auto sizes = has_sizes ? integers(selection, 1) : Integers(selection.outputs.size(), 1);
    // Before opset 13 the sizes are an attribute.
    const auto& attributes = selection.attributes;
    const bool is_old = std::ranges::find(attributes, "split", &onnx_file::OnnxAttribute::name) != attributes.end();
    if (!sizes || is_old || place >= sizes->size()) return std::nullopt;
    Part part = split(*sizes, place);
    part.is_counted = !has_sizes;
    return part;
  }
  std::vector<std::optional<Integers>> numbers;
  for (std::size_t slot = 0; slot < selection.inputs.size(); ++slot) numbers.push_back(integers(selection, slot));
  if (selection.op_type == "Slice") return sliced(numbers);
  if (numbers.size() < 2 || !numbers[1] || numbers[1]->size() != 1) return std::nullopt;
  const std::int64_t index = numbers[1]->front();
  return Part{index, index == -1 ? far_end : index + 1};
}

std::optional<PartsRead::Part> PartsRead::part_of(const graph::Graph& graph, const graph::GraphNode& selection,
                                                  graph::GraphValueId value) {
  std::vector<std::optional<Integers>> numbers;
  for (const graph::GraphValueId input : selection.inputs) numbers.push_back(graph.integers(input));
  const auto size = size_of_axis(graph, selection);
  std::optional<Part> part;
  if (selection.op_type == "Split") {
    const bool has_sizes = numbers.size() > 1;
    if (has_sizes && !numbers[1]) return std::nullopt;
    const auto& outputs = selection.outputs;
    const auto place = static_cast<std::size_t>(std::ranges::find(outputs, value) - outputs.begin());
    const auto count = static_cast<std::int64_t>(outputs.size());
    Integers sizes = has_sizes ? *numbers[1] : Integers(outputs.size(), size ? (*size + count - 1) / count : 1);
    if (!has_sizes && size) sizes.back() = *size - (count - 1) * sizes.front();
    part = split(sizes, place);
    part->is_counted = !has_sizes && !size;
    return part;
  }
  if (selection.op_type == "Slice") {
    part = sliced(numbers);
  } else if (numbers.size() > 1 && numbers[1] && numbers[1]->size() == 1) {
    const std::int64_t index = numbers[1]->front();
    part = Part{index, index == -1 ? far_end : index + 1};
  }
  if (part) part->size = size;
  return part;
}

bool PartsRead::is_fixed(std::string_view value, int depth) const {
  if (value.empty() || tensors_.find(value) != no_tensor) return true;
  const OnnxNode* const maker = tensors_.producer(value);
  if (maker == nullptr || depth == longest_chain || !maker->subgraphs.empty()) return false;
  return std::ranges::all_of(maker->inputs, [&](std::string_view input) { return is_fixed(input, depth + 1); });
}

std::optional<PartsRead::Parts> PartsRead::parts_of(std::string_view value) const {
  Parts parts;
  for (int steps = 0; steps < longest_chain; ++steps) {
    const OnnxNode* const maker = tensors_.producer(value);
    if (maker == nullptr || maker->inputs.empty() || tensors_.find(value) != no_tensor) break;
    if (is_choice(maker->op_type)) {
      const auto part = part_of(*maker, value);
      if (!part) return std::nullopt;
      parts.push_back(*part);
    }
    const bool is_scaling = scales(maker->op_type) && tensors_.find(maker->inputs[1]) != no_tensor;
    if (packed_.contains(maker) && !parts.empty()) parts.pop_back();
    if (maker->op_type == "Shape") return Parts();  // a size is no part of a value
    if (!is_choice(maker->op_type) && !moves(maker->op_type) && !is_scaling) break;
    value = maker->inputs[0];
  }
  return parts;
}

std::optional<PartsRead::Parts> PartsRead::parts_of(const graph::Graph& graph, graph::GraphValueId value) {
  Parts parts;
  for (int steps = 0; steps < longest_chain; ++steps) {
    const graph::GraphNode* const maker = graph.producer(value);
    if (maker == nullptr || maker->inputs.empty()) break;
    if (is_choice(maker->op_type)) {
      const auto part = part_of(graph, *maker, value);
      if (!part) return std::nullopt;
      parts.push_back(*part);
    }
    const bool is_scaling = scales(maker->op_type) && graph.constant(maker->inputs[1]) != nullptr;
    if (maker->op_type == "Shape") return Parts();  // a size is no part of a value
    if (!is_choice(maker->op_type) && !moves(maker->op_type) && !is_scaling) break;
    value = maker->inputs[0];
  }
  return parts;
}

std::string PartsRead::difference(const OnnxNode& node, const std::vector<std::int32_t>& operations) const {
  if (is_choice(node.op_type) || is_movement(node.op_type)) return "";
  for (std::size_t slot = 0; slot < node.inputs.size(); ++slot) {
    const auto theirs = parts_of(node.inputs[slot]);
    if (!theirs || theirs->empty()) continue;
    bool is_equal = false;
    std::string other;
    const bool is_own_fixed = is_fixed(node.inputs[slot], 0);
    const auto compare = [&](const OperationForms::FormNode& form, graph::GraphValueId input) {
      if (is_own_fixed == depends_on_input(*form.graph, input)) return;
      const auto ours = parts_of(*form.graph, input);
      if (!ours || ours->empty()) return;
      // Products that one side joins are parts of a value there only, before the others.
      const std::size_t common = std::min(ours->size(), theirs->size());
      is_equal = is_equal || std::equal(ours->begin(), ours->begin() + static_cast<std::ptrdiff_t>(common),
                                        theirs->begin(), are_equal);
      other = text_of(*ours);
    };
    forms_.for_each_node(operations, [&](const OperationForms::FormNode& form) {
      const auto& inputs = form.node->inputs;
      const bool is_same = match::op_class(form.node->op_type) == match::op_class(node.op_type);
      if (is_ordered(node.op_type)) {
        if (is_same && slot < inputs.size()) compare(form, inputs[slot]);
        return;
      }
      // Within one operation, exporters choose the steps: the scale of an attention may be at query or key.
      for (const graph::GraphValueId input : inputs) compare(form, input);
    });
    if (!is_equal && !other.empty()) return "reads elements " + text_of(*theirs) + ", in the program " + other;
  }
  return "";
}

}  // namespace whence::comparison
