#include "annotator/comparison/attention_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "annotator/comparison/causal_masks.h"
#include "annotator/comparison/packed_products.h"
#include "annotator/comparison/wiring.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/onnx_file/node_attributes.h"

namespace whence::comparison {

using derivation::FileTensors;
using derivation::is_movement;
using derivation::multiplies;
using derivation::ProgramForm;

namespace {

using graph::Graph;
using graph::GraphNode;
using graph::GraphValueId;
using onnx_file::number_attribute;
using onnx_file::OnnxNode;

constexpr std::size_t mask_slot = attention_mask_slot;

// Returns the operations of the nearest products with a parameter before a value.
std::set<std::int32_t> products_before(const Graph& graph, GraphValueId value) {
  constexpr std::size_t most = 200;  // nodes between
  std::set<std::int32_t> found;
  std::vector<GraphValueId> open = {value};
  for (std::size_t i = 0; i < open.size() && i < most; ++i) {
    const GraphNode* const maker = graph.producer(open[i]);
    if (maker == nullptr) continue;
    const bool is_product = maker->op_type == "MatMul" || maker->op_type == "Gemm" || maker->op_type == "Conv";
    const bool has_parameter = is_product && std::ranges::any_of(maker->inputs, [&](GraphValueId input) {
                                 const GraphNode* const before = graph.producer(input);
                                 const bool is_turned = before != nullptr && before->op_type == "Transpose";
                                 const graph::Initializer* const weight =
                                     graph.initializer(is_turned ? before->inputs[0] : input);
                                 return weight != nullptr && (weight->parameter || weight->rearranged);
                               });
    if (has_parameter) {
      found.insert(maker->origin.ops.begin(), maker->origin.ops.end());
    } else {
      open.insert(open.end(), maker->inputs.begin(), maker->inputs.end());
    }
  }
  return found;
}

bool is_last_axis(const GraphNode& split, std::size_t rank) {
  const std::int64_t axis = split.int_attribute("axis", 0);
  return axis == -1 || axis == static_cast<std::int64_t>(rank) - 1;
}

// Returns where a Slice or a Split of one axis starts; nullopt if it is unknown.
std::optional<std::int64_t> start_of(const Graph& graph, const GraphNode& node, GraphValueId result) {
  const std::int64_t output = std::ranges::find(node.outputs, result) - node.outputs.begin();
  const auto& dims = graph.values[static_cast<std::size_t>(result)].dims;
  // A Split without sizes has equal parts.
  if (node.op_type == "Split" && node.inputs.size() < 2) {
    const bool is_known = dims && !dims->empty() && dims->back().is_static() && is_last_axis(node, dims->size());
    return is_known ? std::optional(output * dims->back().size) : std::nullopt;
  }
  const auto numbers = node.inputs.size() < 2 ? std::nullopt : graph.integers(node.inputs[1]);
  if (!numbers) return std::nullopt;
  if (node.op_type == "Slice") return numbers->size() == 1 ? std::optional(numbers->front()) : std::nullopt;
  if (output >= static_cast<std::int64_t>(numbers->size())) return std::nullopt;
  return std::accumulate(numbers->begin(), numbers->begin() + output, std::int64_t{0});
}

// Returns true if RotaryEmbedding turns a value, perhaps before movements.
bool is_turned(const Graph& graph, GraphValueId value) {
  constexpr int most_movements = 16;
  for (int steps = 0; steps < most_movements; ++steps) {
    const GraphNode* const maker = graph.producer(value);
    if (maker == nullptr || maker->inputs.empty()) return false;
    if (maker->op_type == "RotaryEmbedding") return true;
    if (!is_movement(maker->op_type)) return false;
    value = maker->inputs[0];
  }
  return false;
}

// Returns the number of columns of a product's result; nullopt if it is unknown.
std::optional<std::int64_t> columns_of(const Graph& graph, const GraphNode& product) {
  const graph::Initializer* const weight = product.inputs.size() < 2 ? nullptr : graph.initializer(product.inputs[1]);
  if (weight == nullptr || weight->data.shape.size() != 2) return std::nullopt;
  return weight->data.shape[product.int_attribute("transB", 0) != 0 ? 0 : 1];
}

// Returns the last size that a Reshape gives its result; nullopt if it is unknown.
std::optional<std::int64_t> last_size(const Graph& graph, const GraphNode& reshape) {
  const auto& dims = graph.values[static_cast<std::size_t>(reshape.outputs[0])].dims;
  if (dims && !dims->empty() && dims->back().is_static()) return dims->back().size;
  const auto sizes = graph.integers(reshape.inputs[1]);
  return sizes && !sizes->empty() && sizes->back() > 0 ? std::optional(sizes->back()) : std::nullopt;
}

// Returns the first column that is sliced from the result of the nearest product before a value; nullopt if it is
// unknown.
std::optional<std::int64_t> first_column_before(const Graph& graph, GraphValueId value) {
  constexpr int longest = 100;  // a chain of nodes
  std::optional<std::int64_t> start, columns;
  for (int steps = 0; steps < longest; ++steps) {
    const GraphNode* const maker = graph.producer(value);
    if (maker == nullptr || maker->inputs.empty()) return std::nullopt;
    if (maker->op_type == "MatMul" || maker->op_type == "Gemm")
      return columns && columns != columns_of(graph, *maker) ? std::nullopt : start;
    // Divided into heads, a value has other columns than the product; with other leading axes only, it has the same.
    const auto reshaped = maker->op_type == "Reshape" && start ? last_size(graph, *maker) : std::nullopt;
    const bool keeps = reshaped && (!columns || columns == reshaped);
    if (keeps) columns = reshaped;
    if ((maker->op_type == "Reshape" && !keeps) || maker->op_type == "Transpose") start.reset();
    if (maker->op_type == "Slice" || maker->op_type == "Split") start = start_of(graph, *maker, value);
    value = maker->inputs[0];
  }
  return std::nullopt;
}

std::string differs(std::string_view name, double ours, double theirs) {
  const auto text = [](double number) {
    std::string digits = std::to_string(number);
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.ends_with('.')) digits.pop_back();
    return digits;
  };
  return std::string(name) + " is " + text(theirs) + ", in the program " + text(ours);
}

}  // namespace

AttentionFit::AttentionFit(const std::vector<ProgramForm>& forms) {
  for (const ProgramForm& form : forms) add(*form.graph);
}

void AttentionFit::add(const Graph& graph) {
  constexpr std::size_t operands = 3, heads_axis = 1, rank = 4;
  for (const GraphNode& node : graph.nodes) {
    if (node.removed || node.op_type != "Attention" || !node.domain.empty() || node.inputs.size() < operands) continue;
    const auto dims_of = [&](std::size_t slot) {
      return graph.values[static_cast<std::size_t>(node.inputs[slot])].dims.value_or(std::vector<Dim>());
    };
    const std::vector<Dim> query = dims_of(0), key = dims_of(1);
    if (query.size() != rank || key.size() != rank) continue;
    Attention attention{
        .heads = query[heads_axis].size, .key_heads = key[heads_axis].size, .head_size = query[rank - 1].size};
    const graph::Attribute* const scale = node.find("scale");
    attention.scale =
        scale != nullptr ? std::get<float>(scale->value) : 1 / std::sqrt(static_cast<double>(query[rank - 1].size));
    const bool has_mask = node.inputs.size() > mask_slot && node.inputs[mask_slot] != graph::no_value;
    attention.is_causal =
        node.int_attribute("is_causal", 0) != 0 || (has_mask && is_causal_mask(graph, node.inputs[mask_slot]));
    attention.has_mask = has_mask && depends_on_input(graph, node.inputs[mask_slot]);
    for (std::size_t slot = 0; slot < operands; ++slot)
      attention.operands.push_back(products_before(graph, node.inputs[slot]));
    for (std::size_t slot = 0; slot < operands; ++slot)
      attention.first_columns.push_back(first_column_before(graph, node.inputs[slot]));
    const ProgramMask mask{.graph = &graph,
                           .mask = has_mask ? node.inputs[mask_slot] : graph::no_value,
                           .is_causal = node.int_attribute("is_causal", 0) != 0};
    const bool turns = is_turned(graph, node.inputs[0]) && is_turned(graph, node.inputs[1]);
    for (const std::int32_t operation : node.origin.ops) {
      Attention& found = attentions_.emplace(operation, attention).first->second;
      found.masks.push_back(mask);
      found.turns_both = found.turns_both || turns;
    }
  }
}

// Compares the heads and elements that RotaryEmbedding turns before the query and the key.
std::string AttentionFit::rotation_difference(const OnnxNode& node, const Attention& ours, const FileTensors& tensors,
                                              const WrittenOut& written) {
  const std::array<const char*, 2> heads = {"q_num_heads", "kv_num_heads"};
  std::size_t turned = 0, plain = 0;
  for (std::size_t slot = 0; slot < heads.size() && slot < node.inputs.size(); ++slot) {
    std::string_view value = node.inputs[slot];
    constexpr int longest = 8;  // a chain of movements
    for (int steps = 0; steps < longest && !written.rotations.contains(value); ++steps) {
      const OnnxNode* const maker = tensors.producer(value);
      if (maker == nullptr || !is_movement(maker->op_type) || maker->inputs.empty()) break;
      value = maker->inputs[0];
    }
    const auto found = written.rotations.find(value);
    if (found == written.rotations.end()) {
      const OnnxNode* const maker = tensors.producer(value);
      plain += maker != nullptr && (multiplies(maker->op_type) || maker->op_type == "Add") ? 1 : 0;
      continue;
    }
    ++turned;
    const Rotation& rotation = found->second;
    const auto expected = number_attribute(node, heads[slot]);
    if (rotation.heads != 0 && expected && static_cast<double>(rotation.heads) != *expected)
      return differs("the number of heads of a rotation", *expected, static_cast<double>(rotation.heads));
    const std::int64_t rotated = rotation.rotated > 0 ? rotation.rotated : ours.head_size;
    if (rotated != 2 * rotation.columns)
      return differs("the number of rotated elements", static_cast<double>(2 * rotation.columns),
                     static_cast<double>(rotated));
  }
  if (ours.turns_both && turned > 0 && plain > 0) return "turns one of query and key, in the program both";
  return "";
}

const AttentionFit::Attention* AttentionFit::find(const std::vector<std::int32_t>& operations) const {
  const Attention* last = nullptr;
  for (const std::int32_t operation : operations) {
    if (const auto found = attentions_.find(operation); found != attentions_.end()) last = &found->second;
  }
  return last;
}

std::optional<std::string> AttentionFit::mask_difference(const OnnxNode& node,
                                                         const std::vector<std::int32_t>& operations, bool is_drafted,
                                                         MaskFit& masks) const {
  const Attention* const ours = find(operations);
  if (ours == nullptr || node.op_type != "Attention" || !node.domain.empty()) return std::nullopt;
  const FileMask mask{.value = node.inputs.size() > mask_slot ? node.inputs[mask_slot] : std::string_view(),
                      .is_padding = is_drafted,
                      .is_causal = number_attribute(node, "is_causal").value_or(0) != 0,
                      .window = static_cast<std::int64_t>(number_attribute(node, "local_window_size").value_or(-1))};
  return masks.difference(mask, ours->masks);
}

std::string AttentionFit::difference(const OnnxNode& node, const std::vector<std::int32_t>& operations,
                                     const FileTensors& tensors, const Operands& operands, bool is_drafted,
                                     MaskFit& masks, const WrittenOut& written) const {
  const bool is_plain = node.op_type == "Attention" && node.domain.empty();
  if (!is_plain && node.op_type != "MultiHeadAttention") return "";
  const Attention* const ours = find(operations);
  if (ours == nullptr) return "";
  const auto heads = number_attribute(node, is_plain ? "q_num_heads" : "num_heads"),
             key_heads = number_attribute(node, "kv_num_heads");
  if (heads && *heads != static_cast<double>(ours->heads))
    return differs("the number of heads", static_cast<double>(ours->heads), *heads);
  // Programs repeat the heads of keys and values where the operator does it by itself.
  if (key_heads && *key_heads != static_cast<double>(ours->key_heads) && ours->key_heads != ours->heads)
    return differs("the number of heads of keys", static_cast<double>(ours->key_heads), *key_heads);
  constexpr double rounding = 1e-6;
  const double scale = number_attribute(node, "scale").value_or(0);
  if (scale != 0 && std::abs(scale - ours->scale) > rounding * std::abs(ours->scale))
    return differs("scale", ours->scale, scale);
  if (is_plain && number_attribute(node, "softcap").value_or(0) != 0)
    return differs("softcap", 0, *number_attribute(node, "softcap"));
  if (is_plain) {
    if (std::string found = rotation_difference(node, *ours, tensors, written); !found.empty()) return found;
  }
  const auto seen = mask_difference(node, operations, is_drafted, masks);
  if (seen && !seen->empty()) return *seen;
  if (!seen && number_attribute(node, "local_window_size").value_or(-1) >= 0)
    return "has a window that is not compared";
  // Padding is in the mask.
  const bool is_causal = number_attribute(node, is_plain ? "is_causal" : "unidirectional").value_or(0) != 0;
  if (!seen && is_causal && !ours->is_causal) return differs("is_causal", 0, 1);
  if (is_plain && !seen) {
    const std::string_view mask = node.inputs.size() > mask_slot ? node.inputs[mask_slot] : "";
    if (mask.empty() && ours->has_mask) return "reads no mask, unlike the program";
    if (!is_causal && ours->is_causal && !may_be_causal(tensors, mask))
      return "positions see later ones, unlike in the program";
  }
  for (std::size_t slot = 0; slot < ours->operands.size() && slot < node.inputs.size(); ++slot) {
    const auto theirs = operands.products(node.inputs[slot]);
    const auto& expected = ours->operands[slot];
    if (expected.empty()) continue;
    if (!theirs.empty() && std::ranges::none_of(theirs, [&](std::int32_t each) { return expected.contains(each); }))
      return "operand " + std::to_string(slot) + " is another projection than in the program";
    const auto rows = operands.first_rows(node.inputs[slot]);
    const auto column = ours->first_columns[slot];
    if (column && !rows.empty() && !rows.contains(*column))
      return "operand " + std::to_string(slot) + " is another part of a projection than in the program";
  }
  return "";
}

}  // namespace whence::comparison
