// x -> Identity -> y                                   before
// x ------------> y                                    after: the users of y read x
// Also Cast to the same dtype, Reshape, Expand, Slice, Transpose, Pad, Concat, Resize without effect, Dropout at
// inference, adding 0, multiplying by 1, and Where with a condition of equal elements. Condition: constants and dims
// prove that the node has no effect. A bias of zeros stays: it is a parameter, which may be trained or replaced.
// Origins: the node's origin is dropped.
#include <algorithm>
#include <limits>

#include "annotator/program/tensor_values.h"
#include "annotator/simplify/rule.h"
#include "annotator/simplify/sizes.h"

namespace whence::simplify {

using graph::GraphNode;
using graph::GraphValueId;
using graph::no_value;

namespace {

bool same_static_dims(const Rewriter& r, GraphValueId a, GraphValueId b) {
  const auto dims = r.static_dims(a);
  return dims && dims == r.static_dims(b);
}

// Returns true if all sizes agree except one that is dynamic on both sides: the number of elements makes it equal too.
bool same_by_count(const Rewriter& r, GraphValueId a, GraphValueId b) {
  const auto& from = r.value(a).dims;
  const auto& to = r.value(b).dims;
  if (!from || !to || from->size() != to->size()) return false;
  int open = 0;
  for (std::size_t i = 0; i < from->size(); ++i) {
    const Dim& x = (*from)[i];
    const Dim& y = (*to)[i];
    if (x.is_static() != y.is_static()) return false;
    if (!x.is_static()) ++open;
    if (x.is_static() && (x.size != y.size || x.size == 0)) return false;
  }
  return open <= 1;
}

// Returns true if a Reshape target is the input shape: 0 copies a size, an equal number repeats it, and a single -1 can
// then only be the remaining size.
bool target_repeats(const Rewriter& r, const GraphNode& node) {
  const auto& dims = r.value(node.inputs[0]).dims;
  const auto target = r.integers(node.inputs[1]);
  if (!dims || !target || target->size() != dims->size() || node.int_attribute("allowzero", 0) != 0) return false;
  int open = 0;
  for (std::size_t i = 0; i < target->size(); ++i) {
    const std::int64_t target_size = (*target)[i];
    if (target_size == -1) ++open;
    const bool repeats = target_size == 0 || ((*dims)[i].is_static() && (*dims)[i].size == target_size);
    if (target_size != -1 && !repeats) return false;
  }
  return open <= 1;
}

bool is_identity_permutation(const GraphNode& node) {
  const graph::Attribute* attribute = node.find("perm");
  if (attribute == nullptr) return false;
  const auto& permutation = std::get<std::vector<std::int64_t>>(attribute->value);
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

// A slice with a negative step may keep the sizes but reverses the order.
bool slices_forwards(const Rewriter& r, const GraphNode& node) {
  if (node.inputs.size() < 5 || node.inputs[4] == no_value) return true;
  const auto steps = r.integers(node.inputs[4]);
  return steps && std::ranges::all_of(*steps, [](std::int64_t step) { return step > 0; });
}

bool slices_everything(const Rewriter& r, const GraphNode& node) {
  const auto starts = r.integers(node.inputs[1]);
  const auto ends = r.integers(node.inputs[2]);
  const auto& dims = r.value(node.inputs[0]).dims;
  if (!starts || !ends) return false;
  std::vector<std::int64_t> axes(starts->size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  if (node.inputs.size() > 3 && node.inputs[3] != no_value) {
    const auto given = r.integers(node.inputs[3]);
    if (!given) return false;
    axes = *given;
  }
  if (node.inputs.size() > 4 && node.inputs[4] != no_value) {
    const auto steps = r.integers(node.inputs[4]);
    if (!steps || std::ranges::any_of(*steps, [](std::int64_t step) { return step != 1; })) return false;
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::int64_t size = std::numeric_limits<std::int32_t>::max();  // a larger end means "to the last"
    if (dims) {
      const std::int64_t axis = axes[i] < 0 ? axes[i] + static_cast<std::int64_t>(dims->size()) : axes[i];
      if ((*dims)[axis].is_static()) size = (*dims)[axis].size;
    }
    if ((*starts)[i] != 0 || (*ends)[i] < size) return false;
  }
  return true;
}

// Returns true for a Resize by sizes; one by scales may sample other positions even if the sizes are equal.
bool resizes_to_sizes(const GraphNode& node) { return node.inputs.size() > 3 && node.inputs[3] != no_value; }

bool pads_nothing(const Rewriter& r, const GraphNode& node) {
  const auto pads = r.integers(node.inputs[1]);
  return pads && std::ranges::all_of(*pads, [](std::int64_t pad) { return pad == 0; });
}

bool drops_nothing(const Rewriter& r, const GraphNode& node) {
  if (node.outputs.size() > 1 && node.outputs[1] != no_value && r.use_count(node.outputs[1]) > 0) return false;
  if (node.inputs.size() < 3 || node.inputs[2] == no_value) return true;
  const TensorData* training = r.constant(node.inputs[2]);
  return training != nullptr && single_integer(*training) == 0;
}

bool all_elements_are(const TensorData& data, double number) {
  constexpr std::int64_t max_elements = 4096;  // comparing more costs more than the node
  const auto elements = program::Elements::of(data);
  if (!elements || data.element_count() > max_elements) return false;
  for (std::size_t i = 0; i < elements->size(); ++i) {
    if (elements->number(i) != number) return false;
  }
  return true;
}

// Returns true if broadcasting `shape` against `dims` gives `dims`.
bool widens_nothing(const std::vector<std::int64_t>& shape, const std::vector<Dim>& dims) {
  if (shape.size() > dims.size()) return false;
  const std::size_t offset = dims.size() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const Dim& dim = dims[offset + i];
    if (shape[i] != 1 && !(dim.is_static() && dim.size == shape[i])) return false;
  }
  return true;
}

bool expands_nothing(const Rewriter& r, const GraphNode& node) {
  const auto& dims = r.value(node.inputs[0]).dims;
  const auto target = r.integers(node.inputs[1]);
  return dims && target && widens_nothing(*target, *dims);
}

// Skips nodes that only repeat or rearrange elements, starting from the producer of `id`. Sets `id` to the value before
// them and returns its producer; nullptr if no node produces it.
const GraphNode* skip_rearranging(const Rewriter& r, GraphValueId& id) {
  while (const GraphNode* node = r.producer(id)) {
    const bool rearranges = node->domain.empty() && (node->op_type == "Expand" || node->op_type == "Reshape" ||
                                                     node->op_type == "Unsqueeze" || node->op_type == "Transpose");
    if (!rearranges) return node;
    id = node->inputs[0];
  }
  return nullptr;
}

std::optional<double> number_of_constant(const Rewriter& r, GraphValueId id) {
  const TensorData* data = r.constant(id);
  if (data == nullptr || r.is_parameter(id)) return std::nullopt;
  const auto elements = program::Elements::of(*data);
  if (!elements || elements->size() == 0 || !all_elements_are(*data, elements->number(0))) return std::nullopt;
  return elements->number(0);
}

// Returns the least element of a Range of positions with a positive step; nullopt for any other value.
std::optional<double> least_position(const Rewriter& r, GraphValueId id) {
  const GraphNode* range = skip_rearranging(r, id);
  if (range == nullptr || !range->domain.empty() || range->op_type != "Range") return std::nullopt;
  const auto step = number_of_constant(r, range->inputs[2]);
  return step && *step > 0 ? number_of_constant(r, range->inputs[0]) : std::nullopt;
}

// Returns the number that all elements of a value are equal to, if known: a mask that keeps everything, an expanded
// constant, or a comparison of positions that is true for all of them.
std::optional<double> uniform_number(const Rewriter& r, GraphValueId id) {
  const GraphNode* node = skip_rearranging(r, id);
  if (node == nullptr) return number_of_constant(r, id);
  if (!node->domain.empty() || node->op_type != "GreaterOrEqual") return std::nullopt;
  const auto least = least_position(r, node->inputs[0]);
  const auto bound = number_of_constant(r, node->inputs[1]);
  return least && bound && *least >= *bound ? std::optional(1.0) : std::nullopt;
}

bool same_dims(const Rewriter& r, GraphValueId a, GraphValueId b) {
  const auto& first = r.value(a).dims;
  const auto& second = r.value(b).dims;
  return first && second && std::ranges::equal(*first, *second, same_size);
}

// Returns the operand that Where selects for all elements, if it has the shape of the result; otherwise no_value.
GraphValueId chosen_operand(const Rewriter& r, const GraphNode& node) {
  const auto truth = uniform_number(r, node.inputs[0]);
  if (!truth) return no_value;
  const GraphValueId chosen = node.inputs[*truth != 0 ? 1 : 2];
  return same_dims(r, chosen, node.outputs[0]) ? chosen : no_value;
}

// Returns the operand that `node` passes on unchanged because all elements of the other operand are `neutral` and do
// not widen the result; otherwise no_value.
GraphValueId unchanged_operand(const Rewriter& r, const GraphNode& node, double neutral, bool commutes) {
  for (const std::size_t at : {std::size_t{1}, std::size_t{0}}) {
    if (at == 0 && !commutes) break;
    const TensorData* constant = r.constant(node.inputs[at]);
    const GraphValueId other = node.inputs[1 - at];
    const auto& dims = r.value(other).dims;
    if (constant == nullptr) {
      if (uniform_number(r, node.inputs[at]) == neutral && same_dims(r, other, node.outputs[0])) return other;
      continue;
    }
    if (r.is_parameter(node.inputs[at]) || !dims || !widens_nothing(constant->shape, *dims)) continue;
    if (all_elements_are(*constant, neutral)) return other;
  }
  return no_value;
}

// Returns the only input of a Concat that is not known to be empty along its axis; no_value if there are several.
GraphValueId only_filled_input(const Rewriter& r, const GraphNode& node) {
  GraphValueId filled = no_value;
  for (const GraphValueId input : node.inputs) {
    const auto& dims = r.value(input).dims;
    const std::int64_t axis = node.int_attribute("axis", 0);
    const auto rank = static_cast<std::int64_t>(dims ? dims->size() : 0);
    if (!dims || axis < -rank || axis >= rank) return no_value;
    const Dim& dim = (*dims)[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)];
    if (dim.is_static() && dim.size == 0) continue;
    if (filled != no_value) return no_value;
    filled = input;
  }
  return filled;
}

// Returns the input that equals the node's first output, or no_value.
GraphValueId repeated_input(const Rewriter& r, const GraphNode& node) {
  if (!node.domain.empty() || node.inputs.empty() || node.outputs.empty() || node.outputs[0] == no_value) {
    return no_value;
  }
  const GraphValueId x = node.inputs[0];
  const GraphValueId y = node.outputs[0];
  const std::string& op = node.op_type;
  const auto when = [&](bool condition) { return condition ? x : no_value; };
  if (op == "Identity") return x;
  if (op == "Cast") {
    const DType dtype = r.value(x).dtype;
    return when(dtype != DType::undefined && node.int_attribute("to", 0) == to_onnx(dtype));
  }
  if (op == "Reshape") return when(same_static_dims(r, x, y) || same_by_count(r, x, y) || target_repeats(r, node));
  if (op == "Flatten") return when(same_static_dims(r, x, y) || same_by_count(r, x, y));
  if (op == "Expand") return when(same_static_dims(r, x, y) || expands_nothing(r, node));
  if (op == "Transpose") return when(is_identity_permutation(node));
  if (op == "Slice") return when((same_static_dims(r, x, y) && slices_forwards(r, node)) || slices_everything(r, node));
  if (op == "Pad") return when(pads_nothing(r, node));
  if (op == "Dropout") return when(drops_nothing(r, node));
  if (op == "Resize") return when(same_static_dims(r, x, y) && resizes_to_sizes(node));
  if (op == "Concat" && node.inputs.size() > 1) return only_filled_input(r, node);
  if (op == "Concat" || op == "Sum" || op == "Mean" || op == "Max" || op == "Min") return when(node.inputs.size() == 1);
  if (op == "Where") return chosen_operand(r, node);
  if (op == "Add") return unchanged_operand(r, node, 0, true);
  if (op == "And") return unchanged_operand(r, node, 1, true);
  if (op == "Or") return unchanged_operand(r, node, 0, true);
  if (op == "Sub") return unchanged_operand(r, node, 0, false);
  if (op == "Mul") return unchanged_operand(r, node, 1, true);
  if (op == "Div" || op == "Pow") return unchanged_operand(r, node, 1, false);
  return no_value;
}

}  // namespace

Outcome remove_no_op(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& node = rewriter.node(index);
  const GraphValueId input = repeated_input(rewriter, node);
  if (input == no_value) return no_match();
  const GraphValueId output = node.outputs[0];
  if (!rewriter.can_replace(output, input)) return refused("a graph output needs a node that computes it");
  if (rewriter.use_count(output) == 0) return no_match();
  rewriter.replace(output, input);
  return changed();
}

}  // namespace whence::simplify
