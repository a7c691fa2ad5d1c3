#include "annotator/derivation/file_tensors.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "annotator/onnx_file/node_attributes.h"
#include "annotator/onnx_file/walk.h"
#include "schema/dtype.h"
#include "schema/element_count.h"

namespace whence::derivation {

using onnx_file::integer_attribute;
using onnx_file::OnnxGraph;
using onnx_file::OnnxNode;
using onnx_file::OnnxSummary;
using onnx_file::OnnxTensor;

namespace {

constexpr int type_uint8 = 2, type_int8 = 3, type_uint16 = 4, type_int16 = 5, type_int32 = 6, type_uint4 = 21,
              type_int4 = 22;
constexpr std::int64_t last_axis = -1, by_attribute = -2, by_transposition = -3;
constexpr std::size_t absent = 99;

// An operator with a quantised weight: the inputs with integers, scale and zero point, and the axis of its channels.
struct QuantisedOperator {
  std::string_view op_type;
  std::size_t integers, scale, zero;
  std::int64_t axis;
};
constexpr std::array<QuantisedOperator, 10> quantised_operators = {{
    {"DequantizeLinear", 0, 1, 2, by_attribute},
    {"QLinearConv", 3, 4, 5, 0},
    {"QLinearMatMul", 3, 4, 5, last_axis},
    {"QGemm", 3, 4, 5, by_transposition},
    {"MatMulInteger", 1, absent, 3, last_axis},
    {"ConvInteger", 1, absent, 3, 0},
    {"DynamicQuantizeMatMul", 1, 2, 3, last_axis},
    {"MatMulIntegerToFloat", 1, 3, 5, last_axis},
    {"QAttention", 1, 4, 7, last_axis},
    {"QEmbedLayerNormalization", 2, 8, 13, last_axis},
}};

// An operator with a bias in 32-bit integers: the inputs with the bias, and with the scales of input and weight.
struct BiasOperator {
  std::string_view op_type;
  std::size_t bias, input_scale, weight_scale;
};
constexpr std::array<BiasOperator, 2> bias_operators = {{{"QLinearConv", 8, 1, 4}, {"QGemm", 6, 1, 4}}};

bool computes_on_integers(std::string_view op_type) {
  return op_type.starts_with("QLinear") || op_type == "QGemm" || op_type == "QAttention" ||
         op_type == "QuantizeLinear" || op_type == "DequantizeLinear";
}

int bits_of(int data_type) {
  switch (data_type) {
    case type_uint16:
    case type_int16:
      return 16;
    case type_uint4:
    case type_int4:
      return 4;
    default:
      return 8;
  }
}

bool is_signed(int data_type) { return data_type == type_int8 || data_type == type_int16 || data_type == type_int4; }

bool holds_integers(int data_type) {
  static const std::set<int> types = {type_uint8, type_int8, type_uint16, type_int16, type_uint4, type_int4};
  return types.contains(data_type);
}

}  // namespace

FileTensors::FileTensors(const OnnxSummary& model) {
  add_tensors(model);
  add_uses(model.graph);
  onnx_file::walk_nodes(model.graph.nodes, [&](const OnnxNode& node) { read_node(node); });
  std::set<TensorNumber> known;
  for (const QuantisedWeight& weight : quantised_) known.insert({weight.integers, weight.scales, weight.zeros});
  for (const QuantisedBias& bias : biases_) known.insert({bias.integers, bias.scale});
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto number = static_cast<TensorNumber>(i);
    const bool is_range = std::ranges::any_of(
        tensors_[i].uses, [](const Use& use) { return use.slot > 0 && computes_on_integers(use.node->op_type); });
    if (is_range && !known.contains(number) && element_count(tensors_[i].tensor->dims) == 1)
      calibrated_.push_back(number);
  }
}

void FileTensors::add_tensors(const OnnxSummary& model) {
  onnx_file::walk_graphs(model, [&](const OnnxGraph& graph) {
    for (const OnnxTensor& tensor : graph.initializers) tensors_.push_back({&tensor, tensor.name});
  });
  onnx_file::walk_nodes(model, [&](const OnnxNode& node) {
    for (const OnnxTensor& tensor : node.tensors) {
      const bool is_constant = node.op_type == "Constant" && !node.outputs.empty();
      tensors_.push_back({&tensor, is_constant ? node.outputs[0] : tensor.name});
    }
  });
  for (std::size_t i = 0; i < tensors_.size(); ++i) names_.emplace(tensors_[i].name, static_cast<TensorNumber>(i));
}

void FileTensors::add_uses(const OnnxGraph& outermost) {
  onnx_file::walk_graphs(outermost, [&](const OnnxGraph& graph) {
    for (const onnx_file::OnnxValue& output : graph.outputs) {
      if (const TensorNumber tensor = find(output.name); tensor != no_tensor) tensors_[tensor].is_output = true;
    }
    for (const OnnxNode& node : graph.nodes) {
      for (const std::string_view output : node.outputs) producers_.emplace(output, &node);
      for (std::size_t slot = 0; slot < node.inputs.size(); ++slot) {
        readers_[node.inputs[slot]].push_back(&node);
        if (const TensorNumber tensor = find(node.inputs[slot]); tensor != no_tensor)
          tensors_[tensor].uses.push_back({&node, slot});
      }
    }
  });
}

TensorNumber FileTensors::find(std::string_view name) const {
  const auto found = names_.find(name);
  return found == names_.end() || name.empty() ? no_tensor : found->second;
}

std::vector<Use> FileTensors::final_uses(const FileTensor& tensor) const {
  static const std::set<std::string_view> passing = {"Cast",    "DequantizeLinear", "Identity",  "QuantizeLinear",
                                                     "Reshape", "Squeeze",          "Transpose", "Unsqueeze"};
  std::vector<Use> found, open = tensor.uses;
  for (std::size_t i = 0; i < open.size(); ++i) {
    const Use use = open[i];
    // A chain of these nodes is short; a longer one is cut off.
    constexpr std::size_t most = 100;
    if (!passing.contains(use.node->op_type) || open.size() > most || use.node->outputs.empty()) {
      found.push_back(use);
      continue;
    }
    const std::string_view value = use.node->outputs[0];
    for (const OnnxNode* next : readers(value)) {
      const auto slot = std::ranges::find(next->inputs, value) - next->inputs.begin();
      open.push_back({next, static_cast<std::size_t>(slot)});
    }
  }
  return found;
}

std::set<std::string_view> FileTensors::readers_of(const FileTensor& tensor) const {
  std::set<std::string_view> found;
  for (const Use& use : final_uses(tensor)) found.insert(use.node->op_type);
  return found;
}

TensorNumber FileTensors::input(const OnnxNode& node, std::size_t slot) const {
  return slot < node.inputs.size() ? find(node.inputs[slot]) : no_tensor;
}

const OnnxNode* FileTensors::producer(std::string_view value) const {
  const auto found = producers_.find(value);
  return found == producers_.end() ? nullptr : found->second;
}

const std::vector<const OnnxNode*>& FileTensors::readers(std::string_view value) const {
  static const std::vector<const OnnxNode*> none;
  const auto found = readers_.find(value);
  return found == readers_.end() ? none : found->second;
}

// Returns the scales of input and weight that MatMulInteger or ConvInteger reads, as far as they are constants: the
// result is cast to float and multiplied by their product, in this order. A scale that is alone is the weight's.
std::array<TensorNumber, 2> FileTensors::scales_after(const OnnxNode& node) const {
  const auto reader_of = [&](std::string_view value, std::string_view op_type) -> const OnnxNode* {
    const auto reader = std::ranges::find(readers(value), op_type, &OnnxNode::op_type);
    return reader == readers(value).end() ? nullptr : *reader;
  };
  const OnnxNode* cast = node.outputs.empty() ? nullptr : reader_of(node.outputs[0], "Cast");
  const OnnxNode* product = cast == nullptr ? nullptr : reader_of(cast->outputs[0], "Mul");
  std::array<TensorNumber, 2> found = {no_tensor, no_tensor};
  if (product == nullptr) return found;
  for (const std::string_view factor : product->inputs) {
    const OnnxNode* scales = producer(factor);
    if (scales == nullptr || scales == cast || scales->op_type != "Mul") continue;
    for (std::size_t slot = 0; slot < found.size(); ++slot) found[slot] = input(*scales, slot);
    if (found[1] == no_tensor) std::swap(found[0], found[1]);
  }
  return found;
}

std::optional<Groups> FileTensors::groups_of(const QuantisedWeight& weight, std::int64_t axis,
                                             std::int64_t block) const {
  const auto& dims = weight.dims;
  // Sizes come from attributes, which may be anything.
  if (element_count(dims) < 1 || element_count(dims) == max_elements) return {};
  if (weight.bits != 4 && weight.bits != 8 && weight.bits != 16) return {};
  const auto rank = static_cast<std::int64_t>(dims.size());
  const std::int64_t scales = weight.scales == no_tensor ? 1 : element_count((*this)[weight.scales].tensor->dims);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) axis = 0;
  if (scales == 1 && block == 0) return Groups{};
  if (block > 0) return Groups{Groups::Kind::block, axis, block};
  const bool is_by_channel = rank > 0 && scales == dims[static_cast<std::size_t>(axis)];
  return is_by_channel ? std::optional(Groups{Groups::Kind::channel, axis, 0}) : std::nullopt;
}

void FileTensors::add_weight(QuantisedWeight weight, std::int64_t axis, std::int64_t block) {
  const auto groups = groups_of(weight, axis, block);
  if (!groups) return;
  weight.groups = *groups;
  quantised_.push_back(std::move(weight));
}

// Adds the scales of QuantizeLinear, if it reads a constant, and of the nodes that dequantise its result.
void FileTensors::add_run_time(const OnnxNode& node) {
  const TensorNumber numbers = input(node, 0);
  const bool is_weight = node.op_type == "QuantizeLinear" && numbers != no_tensor && !node.outputs.empty() &&
                         is_floating(from_onnx((*this)[numbers].tensor->data_type));
  if (!is_weight) return;
  std::vector<const OnnxNode*> nodes = {&node};
  for (const OnnxNode* reader : readers(node.outputs[0])) {
    if (reader->op_type == "DequantizeLinear" && reader->inputs[0] == node.outputs[0]) nodes.push_back(reader);
  }
  for (const OnnxNode* each : nodes) {
    const TensorNumber scales = input(*each, 1), zeros = input(*each, 2);
    const int type = zeros == no_tensor ? type_uint8 : (*this)[zeros].tensor->data_type;
    if (scales == no_tensor || !holds_integers(type)) continue;
    QuantisedWeight weight{.scales = scales,
                           .zeros = zeros,
                           .dims = (*this)[numbers].tensor->dims,
                           .bits = bits_of(type),
                           .is_signed = is_signed(type)};
    if (weight.bits == 4) weight.layout = Layout::packed;
    const auto groups =
        groups_of(weight, integer_attribute(*each, "axis", 1), integer_attribute(*each, "block_size", 0));
    if (!groups) continue;
    weight.groups = *groups;
    run_time_weights_.push_back({numbers, std::move(weight)});
  }
}

void FileTensors::add_quantised(const OnnxNode& node) {
  for (const QuantisedOperator& known : quantised_operators) {
    if (node.op_type != known.op_type) continue;
    const TensorNumber integers = input(node, known.integers);
    if (integers == no_tensor || !holds_integers((*this)[integers].tensor->data_type)) continue;
    const OnnxTensor& stored = *(*this)[integers].tensor;
    QuantisedWeight weight{.integers = integers,
                           .scales = known.scale == absent ? scales_after(node)[1] : input(node, known.scale),
                           .zeros = input(node, known.zero),
                           .dims = stored.dims,
                           .bits = bits_of(stored.data_type),
                           .is_signed = is_signed(stored.data_type)};
    if (weight.bits == 4) weight.layout = Layout::packed;
    std::int64_t axis = known.axis, block = 0;
    if (axis == by_attribute) {
      axis = integer_attribute(node, "axis", 1);
      block = integer_attribute(node, "block_size", 0);
    } else if (axis == by_transposition) {
      axis = integer_attribute(node, "transB", 0) != 0 ? 0 : 1;
    }
    add_weight(std::move(weight), axis, block);
  }
  add_moved(node);
  if (node.op_type == "MatMulInteger" || node.op_type == "ConvInteger") {
    // The elements of a quantised embedding are the input of the next layer as they are.
    const TensorNumber scale = scales_after(node)[0];
    if (scale != no_tensor) add_before_movements(node.inputs[0], scale, input(node, 2));
  }
  if (node.op_type == "DynamicQuantizeLSTM") {
    constexpr std::array<std::array<std::size_t, 3>, 2> inputs = {{{1, 8, 9}, {2, 10, 11}}};
    for (const auto& [integers, scale, zero] : inputs)
      add_recurrent(input(node, integers), input(node, scale), input(node, zero));
  }
  if (node.op_type == "MatMulNBits") {
    const TensorNumber integers = input(node, 1);
    // The input g_idx gives each column a group of its own.
    constexpr std::size_t group_indices = 4;
    const bool is_regrouped = node.inputs.size() > group_indices && !node.inputs[group_indices].empty();
    if (integers == no_tensor || is_regrouped) return;
    const auto bits = static_cast<int>(integer_attribute(node, "bits", 4));
    const std::vector<std::int64_t> dims = {integer_attribute(node, "N", 0), integer_attribute(node, "K", 0)};
    add_weight({.integers = integers,
                .scales = input(node, 2),
                .zeros = input(node, 3),
                .dims = dims,
                .bits = bits,
                .is_signed = false,
                .layout = Layout::n_bits,
                .default_zero = 1 << (bits - 1)},
               1, integer_attribute(node, "block_size", 0));
  }
  if (node.op_type == "GatherBlockQuantized") {
    const TensorNumber integers = input(node, 0);
    if (integers == no_tensor) return;
    const OnnxTensor& stored = *(*this)[integers].tensor;
    std::vector<std::int64_t> dims = stored.dims;
    const auto bits = static_cast<int>(integer_attribute(node, "bits", 4));
    const bool is_packed = stored.data_type == type_uint8 && bits == 4;
    if (is_packed && !dims.empty()) dims.back() *= 2;
    add_weight({.integers = integers,
                .scales = input(node, 2),
                .zeros = input(node, 3),
                .dims = dims,
                .bits = bits,
                .is_signed = is_signed(stored.data_type),
                .layout = bits == 4 ? Layout::packed : Layout::plain,
                .default_zero = stored.data_type == type_uint8 ? 1 << (bits - 1) : 0,
                .usual_rounding = Rounding::divide_shifted_to_even},
               integer_attribute(node, "quantize_axis", 1), integer_attribute(node, "block_size", 128));
  }
}

// Adds integers with one scale that reach the node after they were gathered or moved: an embedding's table, a tied
// head, a constant operand. The scale and zero point are the two inputs after them.
void FileTensors::add_moved(const OnnxNode& node) {
  if (!node.op_type.starts_with("QLinear") && node.op_type != "DequantizeLinear") return;
  for (std::size_t slot = 0; slot + 1 < node.inputs.size(); ++slot) {
    const TensorNumber scale = input(node, slot + 1);
    if (scale == no_tensor || !is_floating(from_onnx((*this)[scale].tensor->data_type))) continue;
    // An integer after a scale is a zero point.
    const TensorNumber before = slot == 0 ? no_tensor : input(node, slot - 1);
    if (before != no_tensor && is_floating(from_onnx((*this)[before].tensor->data_type))) continue;
    add_before_movements(node.inputs[slot], scale, input(node, slot + 2));
  }
}

void FileTensors::add_before_movements(std::string_view value, TensorNumber scale, TensorNumber zero) {
  static const std::set<std::string_view> movements = {"Gather",  "Transpose", "Reshape",
                                                       "Squeeze", "Unsqueeze", "Expand"};
  TensorNumber integers = find(value);
  for (const OnnxNode* maker = producer(value); integers == no_tensor && maker != nullptr; maker = producer(value)) {
    if (!movements.contains(maker->op_type) || maker->inputs.empty()) break;
    integers = input(*maker, 0);
    value = maker->inputs[0];
  }
  const bool is_new = integers != no_tensor && holds_integers((*this)[integers].tensor->data_type) &&
                      std::ranges::find(quantised_, integers, &QuantisedWeight::integers) == quantised_.end();
  if (!is_new || element_count((*this)[scale].tensor->dims) != 1) return;
  const OnnxTensor& stored = *(*this)[integers].tensor;
  QuantisedWeight weight{.integers = integers,
                         .scales = scale,
                         .zeros = zero,
                         .dims = stored.dims,
                         .bits = bits_of(stored.data_type),
                         .is_signed = is_signed(stored.data_type)};
  if (weight.bits == 4) weight.layout = Layout::packed;
  add_weight(std::move(weight), 0, 0);
}

// Adds a weight [directions, inputs, gates] with a scale for each direction or each gate.
void FileTensors::add_recurrent(TensorNumber integers, TensorNumber scales, TensorNumber zeros) {
  if (integers == no_tensor || scales == no_tensor) return;
  const OnnxTensor& stored = *(*this)[integers].tensor;
  if (stored.dims.size() != 3) return;
  const bool by_gate = element_count((*this)[scales].tensor->dims) > stored.dims[0];
  add_weight({.integers = integers,
              .scales = scales,
              .zeros = zeros,
              .dims = stored.dims,
              .is_signed = is_signed(stored.data_type)},
             by_gate ? 1 : 0, by_gate ? stored.dims[1] : 0);
}

// Adds the bias of a product or norm between QuantizeLinear and DequantizeLinear.
void FileTensors::add_dequantised_bias(const OnnxNode& node) {
  constexpr std::size_t bias_slot = 2;
  if (node.inputs.size() <= bias_slot) return;
  std::array<const OnnxNode*, 3> makers{};
  for (std::size_t slot = 0; slot < makers.size(); ++slot) {
    makers[slot] = producer(node.inputs[slot]);
    if (makers[slot] == nullptr || makers[slot]->op_type != "DequantizeLinear") return;
  }
  const TensorNumber integers = input(*makers[2], 0);
  if (integers == no_tensor || (*this)[integers].tensor->data_type != type_int32) return;
  biases_.push_back({integers, input(*makers[2], 1), input(*makers[0], 1), input(*makers[1], 1)});
}

void FileTensors::read_node(const OnnxNode& node) {
  add_quantised(node);
  add_run_time(node);
  for (const BiasOperator& known : bias_operators) {
    if (node.op_type != known.op_type) continue;
    const TensorNumber bias = input(node, known.bias);
    if (bias != no_tensor)
      biases_.push_back({bias, no_tensor, input(node, known.input_scale), input(node, known.weight_scale)});
  }
  static const std::set<std::string_view> products = {"Conv",          "ConvTranspose", "Gemm",
                                                      "MatMul",        "FusedConv",     "FusedGemm",
                                                      "NhwcFusedConv", "MatMulInteger", "ConvInteger"};
  const bool is_product = products.contains(node.op_type);
  if (is_product || node.op_type.ends_with("Normalization")) add_dequantised_bias(node);
  if (!is_product) return;
  const bool is_integer = node.op_type == "MatMulInteger" || node.op_type == "ConvInteger";
  Product product{.weight = input(node, 1), .bias = is_integer ? no_tensor : input(node, 2)};
  if (node.op_type == "ConvTranspose") {
    product.axis = 1;
    product.groups = integer_attribute(node, "group", 1);
  }
  if (node.op_type.starts_with("MatMul") ||
      (node.op_type.ends_with("Gemm") && integer_attribute(node, "transB", 0) == 0))
    product.axis = 1;
  if (product.weight == no_tensor) {
    const OnnxNode* maker = node.inputs.size() > 1 ? producer(node.inputs[1]) : nullptr;
    static const std::set<std::string_view> converting = {"Cast", "DequantizeLinear", "QuantizeLinear"};
    for (int steps = 0; steps < 4 && maker != nullptr && converting.contains(maker->op_type); ++steps) {
      product.weight = input(*maker, 0);
      if (product.weight != no_tensor || maker->inputs.empty()) break;
      maker = producer(maker->inputs[0]);
    }
  }
  if (product.weight != no_tensor) products_.push_back(product);
}

}  // namespace whence::derivation
