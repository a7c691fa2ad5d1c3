#include "annotator/simplify/repeated_angles.h"

#include <algorithm>
#include <cstring>

#include "annotator/simplify/last_axis.h"
#include "annotator/simplify/operands.h"
#include "annotator/simplify/rule.h"

namespace whence::simplify {

using graph::GraphNode;
using graph::GraphValueId;
using graph::no_value;

namespace {

bool constant_repeats(const TensorData& data, Repeat repeat) {
  if (data.shape.empty() || data.shape.back() % 2 != 0 || data.element_count() == 0) return false;
  const auto bytes = data.bytes.in_memory();
  const std::size_t element = size_of(data.dtype);
  if (!bytes || element == 0) return false;
  const std::size_t part =
      repeat == Repeat::pairs ? element : static_cast<std::size_t>(data.shape.back() / 2) * element;
  for (std::size_t at = 0; at + 2 * part <= bytes->size(); at += 2 * part) {
    if (std::memcmp(bytes->data() + at, bytes->data() + at + part, part) != 0) return false;
  }
  return true;
}

bool joins_a_value_with_itself(const Rewriter& r, const GraphNode& node) {
  return is(node, "Concat") && node.inputs.size() == 2 && node.inputs[0] == node.inputs[1] &&
         is_last_axis(r, node.outputs[0], node.int_attribute("axis", 0));
}

// Returns true for a Gather by 0, 0, 1, 1, 2, 2, ... over the whole input.
bool takes_each_twice(const Rewriter& r, const GraphNode& node) {
  if (!is(node, "Gather") || !is_last_axis(r, node.inputs[0], node.int_attribute("axis", 0))) return false;
  const auto places = r.integers(node.inputs[1]);
  if (!places || static_cast<std::int64_t>(places->size()) != 2 * width(r, node.inputs[0])) return false;
  for (std::size_t i = 0; i < places->size(); ++i) {
    if ((*places)[i] != static_cast<std::int64_t>(i / 2)) return false;
  }
  return true;
}

bool begins_repeat(const Rewriter& r, const GraphNode& node, Repeat repeat) {
  return repeat == Repeat::halves ? joins_a_value_with_itself(r, node) : takes_each_twice(r, node);
}

bool leaves_last_axis(const Rewriter& r, const GraphNode& node) {
  if (is(node, "Gather")) return !is_last_axis(r, node.inputs[0], node.int_attribute("axis", 0));
  if (!is(node, "Slice")) return true;
  const auto axes = node.inputs.size() > 3 ? r.integers(node.inputs[3]) : std::nullopt;
  return axes && std::ranges::none_of(*axes, [&](std::int64_t axis) { return is_last_axis(r, node.inputs[0], axis); });
}

// Returns the input that must repeat its numbers for the result to do so, if the node treats all elements of the last
// axis in the same way; otherwise no_value.
GraphValueId repeating_input(const Rewriter& r, const GraphNode& node) {
  if (is(node, "Mul") || is(node, "Add")) {
    const auto operands = with_number(r, node);
    return operands ? operands->x : no_value;
  }
  constexpr const char* uniform[] = {"Cos",       "Sin",     "Cast",  "Neg",   "Identity",
                                     "Unsqueeze", "Squeeze", "Slice", "Gather"};
  const bool known = std::ranges::any_of(uniform, [&](const char* name) { return is(node, name); });
  if (!known || !leaves_last_axis(r, node)) return no_value;
  return width(r, node.inputs[0]) == width(r, node.outputs[0]) ? node.inputs[0] : no_value;
}

// Adds a Slice over the last axis of a constant; folding computes it later.
GraphValueId part_of_constant(Rewriter& r, GraphValueId value, Repeat repeat, Dims dims,
                              const origin::NodeOrigin& origin) {
  const std::int64_t last = static_cast<std::int64_t>(dims.size()) - 1, half = dims.back().size;
  const bool pairs = repeat == Repeat::pairs;
  const std::vector<GraphValueId> inputs{value, ints(r, {0}, origin), ints(r, {pairs ? 2 * half : half}, origin),
                                         ints(r, {last}, origin), ints(r, {pairs ? 2 : 1}, origin)};
  return r.insert(make_node("Slice", inputs, origin), r.value(value).dtype, std::move(dims));
}

}  // namespace

bool repeats(const Rewriter& r, GraphValueId value, Repeat repeat) {
  constexpr int deepest = 16;
  for (int depth = 0; depth < deepest && width(r, value) >= 2; ++depth) {
    if (const TensorData* data = r.constant(value)) return constant_repeats(*data, repeat);
    const GraphNode* node = r.producer(value);
    if (node == nullptr) return false;
    if (begins_repeat(r, *node, repeat)) return true;
    if ((value = repeating_input(r, *node)) == no_value) return false;
  }
  return false;
}

GraphValueId without_repeats(Rewriter& r, GraphValueId value, Repeat repeat, const origin::NodeOrigin& origin) {
  Dims dims = *dims_at(r, value);
  dims.back() = Dim{dims.back().size / 2, false, none_id};
  if (r.constant(value) != nullptr) return part_of_constant(r, value, repeat, std::move(dims), origin);
  GraphNode node = *r.producer(value);
  if (begins_repeat(r, node, repeat)) return node.inputs[0];
  const GraphValueId from = repeating_input(r, node), once = without_repeats(r, from, repeat, origin);
  std::ranges::replace(node.inputs, from, once);
  return r.insert(std::move(node), r.value(value).dtype, std::move(dims));
}

}  // namespace whence::simplify
