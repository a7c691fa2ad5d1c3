#include "annotator/comparison/unrolled_layers.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "annotator/comparison/file_wiring.h"
#include "annotator/comparison/node_counts.h"
#include "annotator/comparison/wiring.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/onnx_file/node_attributes.h"
#include "annotator/program/tensor_values.h"

namespace whence::comparison {

using derivation::CastStep;
using derivation::ConcatenateStep;
using derivation::Contents;
using derivation::Derivation;
using derivation::Expression;
using derivation::FileTensors;
using derivation::integers_in;
using derivation::is_movement;
using derivation::no_tensor;
using derivation::ParameterStep;
using derivation::QuantiseBiasStep;
using derivation::QuantiseStep;
using derivation::ReshapeStep;
using derivation::TensorNumber;
using derivation::TransposeStep;

using onnx_file::OnnxNode;

namespace {

constexpr int most_moves = 100;  // a chain of movements
constexpr std::int64_t most_steps = 4096;

// Returns true for a complete parameter, transposed once or not at all.
bool is_whole(const Expression& expression, bool& transposed) {
  if (std::holds_alternative<ParameterStep>(expression.step)) return true;
  const bool transposes = std::holds_alternative<TransposeStep>(expression.step);
  const bool keeps =
      std::holds_alternative<CastStep>(expression.step) || std::holds_alternative<QuantiseStep>(expression.step);
  if (transposes) transposed = !transposed;
  return (transposes || keeps) && is_whole(expression.inputs.at(0), transposed);
}

// Returns the parameter that all rows of a bias hold: the first step starts from zeros, so that exporters compute its
// product and keep one copy of the bias for each example. Null for other expressions.
const ParameterStep* bias_in(const Expression& expression) {
  if (const auto* const parameter = std::get_if<ParameterStep>(&expression.step))
    return parameter->dims.size() == 1 ? parameter : nullptr;
  const ParameterStep* first = nullptr;
  if (expression.inputs.empty()) return nullptr;
  if (std::holds_alternative<ConcatenateStep>(expression.step)) {
    for (const Expression& input : expression.inputs) {
      const ParameterStep* const own = bias_in(input);
      if (own == nullptr || (first != nullptr && own->name != first->name)) return nullptr;
      first = own;
    }
    return first;
  }
  first = bias_in(expression.inputs[0]);
  const auto* const reshapes = std::get_if<ReshapeStep>(&expression.step);
  if (first == nullptr || (reshapes != nullptr && !reshapes->dims.empty() && reshapes->dims.back() == first->dims[0]))
    return first;
  const bool keeps = std::holds_alternative<CastStep>(expression.step) ||
                     std::holds_alternative<QuantiseStep>(expression.step) ||
                     std::holds_alternative<QuantiseBiasStep>(expression.step);
  return keeps ? first : nullptr;
}

bool is_named(const ParameterStep& step, std::string_view name) {
  return step.name == name || std::ranges::find(step.same_bytes, name) != step.same_bytes.end();
}

bool is_plain(const OnnxNode& node) { return node.domain.empty() || node.domain == "ai.onnx"; }

// Returns true for a product of its first two inputs and nothing else, apart from transB.
bool is_product(const OnnxNode& node) {
  if (node.inputs.size() < 2) return false;
  if (node.op_type == "MatMulNBits") return node.inputs.size() < 5 || node.inputs[4].empty();
  if (node.op_type == "MatMul") return is_plain(node);
  return node.op_type == "Gemm" && onnx_file::integer_attribute(node, "transA", 0) == 0 &&
         onnx_file::number_attribute(node, "alpha").value_or(1) == 1 &&
         onnx_file::number_attribute(node, "beta").value_or(1) == 1;
}

}  // namespace

UnrolledLayers::UnrolledLayers(const std::vector<const OnnxNode*>& nodes, const onnx_file::OnnxGraph& graph,
                               const FileTensors& tensors, const std::vector<Derivation>& derivations,
                               Contents& contents)
    : nodes_(nodes), graph_(graph), tensors_(tensors), derivations_(derivations), contents_(contents) {}

std::string_view UnrolledLayers::unconverted(std::string_view value, Nodes& nodes) const {
  for (int steps = 0; steps < most_moves; ++steps) {
    const OnnxNode* const maker = tensors_.producer(value);
    if (maker == nullptr || maker->inputs.empty()) return value;
    if (maker->op_type == "Identity" || (maker->op_type == "Cast" && is_floating(conversion_of(*maker)))) {
      nodes.insert(maker);
      value = maker->inputs[0];
      continue;
    }
    const OnnxNode* const quantiser = tensors_.producer(maker->inputs[0]);
    const bool is_pair = maker->op_type == "DequantizeLinear" && quantiser != nullptr &&
                         quantiser->op_type == "QuantizeLinear" && quantiser->inputs.size() == maker->inputs.size();
    if (!is_pair || !std::equal(maker->inputs.begin() + 1, maker->inputs.end(), quantiser->inputs.begin() + 1))
      return value;
    nodes.insert({maker, quantiser});
    value = quantiser->inputs[0];
  }
  return value;
}

TensorNumber UnrolledLayers::constant_before(std::string_view value, bool& transposed) const {
  static const std::set<std::string_view> keeping = {"Cast", "DequantizeLinear", "Identity"};
  for (int steps = 0; steps < most_moves; ++steps) {
    if (const TensorNumber tensor = tensors_.find(value); tensor != no_tensor) return tensor;
    const OnnxNode* const maker = tensors_.producer(value);
    if (maker == nullptr || maker->inputs.empty()) return no_tensor;
    const bool transposes = maker->op_type == "Transpose";
    if (!transposes && !keeping.contains(maker->op_type)) return no_tensor;
    if (transposes) transposed = !transposed;
    value = maker->inputs[0];
  }
  return no_tensor;
}

bool UnrolledLayers::is_weight(TensorNumber tensor, bool transposed) const {
  const auto& expression = derivations_[static_cast<std::size_t>(tensor)].expression;
  // x W^T: PyTorch's linear layers read their weights transposed.
  return expression && is_whole(*expression, transposed) && transposed;
}

std::optional<UnrolledLayers::Product> UnrolledLayers::product_of(const OnnxNode& node, Nodes& nodes) const {
  const OnnxNode* product = &node;
  std::string_view data = node.inputs.empty() ? std::string_view() : node.inputs[0];
  if (const std::string_view sum = rescaled_sum(node, tensors_); !sum.empty()) {
    const OnnxNode* const cast = tensors_.producer(sum);
    product = cast == nullptr ? nullptr : tensors_.producer(cast->inputs[0]);
    if (product == nullptr || product->op_type != "MatMulInteger" || product->inputs.size() < 2) return std::nullopt;
    const OnnxNode* const quantiser = tensors_.producer(product->inputs[0]);
    const OnnxNode* const scale = tensors_.producer(node.inputs[node.inputs[0] == sum ? 1 : 0]);
    const bool is_own = quantiser != nullptr && quantiser->op_type == "DynamicQuantizeLinear" &&
                        product->inputs[0] == quantiser->outputs[0] && scale != nullptr &&
                        std::ranges::find(scale->inputs, quantiser->outputs[1]) != scale->inputs.end();
    if (!is_own) return std::nullopt;
    nodes.insert({cast, product, quantiser, scale});
    data = quantiser->inputs[0];
  } else if (!is_product(node)) {
    return std::nullopt;
  }
  nodes.insert(&node);
  bool transposed = product->op_type == "MatMulNBits" || onnx_file::integer_attribute(*product, "transB", 0) != 0;
  const TensorNumber weight = constant_before(product->inputs[1], transposed);
  if (weight == no_tensor || !is_weight(weight, transposed)) return std::nullopt;
  return Product{unconverted(data, nodes), weight};
}

const OnnxNode* UnrolledLayers::reshaped_product(const OnnxNode& node, std::int64_t leading, Nodes& nodes) const {
  const auto sizes = node.op_type == "Reshape" ? integers(node, 1) : std::nullopt;
  const OnnxNode* const product = sizes ? tensors_.producer(node.inputs[0]) : nullptr;
  if (product == nullptr || product->op_type != "Gemm" || sizes->size() != 3 || sizes->at(0) != leading) return nullptr;
  const OnnxNode* const rows = tensors_.producer(product->inputs[0]);
  const auto row_sizes = rows != nullptr && rows->op_type == "Reshape" ? integers(*rows, 1) : std::nullopt;
  bool transposed = false;
  const TensorNumber weight = constant_before(product->inputs[1], transposed);
  if (!row_sizes || row_sizes->size() != 2 || weight == no_tensor) return nullptr;
  // The rows keep their order, and the first size and the last one determine the second.
  const auto& dims = tensors_[weight].tensor->dims;
  const bool is_turned = onnx_file::integer_attribute(*product, "transB", 0) != 0;
  if (dims.size() != 2 || sizes->at(2) != dims[is_turned ? 0 : 1] || row_sizes->at(1) != dims[is_turned ? 1 : 0])
    return nullptr;
  nodes.insert({&node, rows});
  return product;
}

bool UnrolledLayers::add_summands(std::string_view value, std::int64_t leading, Sum& sum, Nodes& nodes,
                                  int depth) const {
  constexpr int deepest = 8;
  if (depth > deepest) return false;
  bool transposed = false;
  if (const TensorNumber constant = constant_before(value, transposed); constant != no_tensor) {
    sum.biases.push_back(constant);
    return !transposed;
  }
  value = unconverted(value, nodes);
  const OnnxNode* maker = tensors_.producer(value);
  if (maker != nullptr && maker->op_type == "Add" && maker->inputs.size() == 2) {
    nodes.insert(maker);
    return add_summands(maker->inputs[0], leading, sum, nodes, depth + 1) &&
           add_summands(maker->inputs[1], leading, sum, nodes, depth + 1);
  }
  const OnnxNode* const inner = maker == nullptr ? nullptr : reshaped_product(*maker, leading, nodes);
  if (inner != nullptr) maker = inner;
  auto product = maker == nullptr ? std::nullopt : product_of(*maker, nodes);
  if (product && inner != nullptr) product->data = unconverted(tensors_.producer(product->data)->inputs[0], nodes);
  if (!product) {
    sum.others.push_back(value);
    return true;
  }
  sum.products.push_back(*product);
  const bool has_bias = maker->op_type == "Gemm" && maker->inputs.size() > 2 && !maker->inputs[2].empty();
  return !has_bias || add_summands(maker->inputs[2], leading, sum, nodes, depth + 1);
}

std::optional<std::vector<std::int64_t>> UnrolledLayers::integers(const OnnxNode& node, std::size_t slot) const {
  const TensorNumber tensor = slot < node.inputs.size() ? tensors_.find(node.inputs[slot]) : no_tensor;
  return tensor == no_tensor ? std::nullopt : integers_in(contents_.data(tensors_[tensor]), most_steps);
}

std::optional<UnrolledLayers::Step> UnrolledLayers::step_of(std::string_view value, Nodes& nodes) const {
  const std::vector<std::int64_t> first_axis = {0};
  const OnnxNode* maker = tensors_.producer(value);
  const bool is_gathered = maker != nullptr && maker->op_type == "Gather";
  if (maker != nullptr && maker->op_type == "Squeeze" && integers(*maker, 1) == first_axis) {
    nodes.insert(maker);
    value = unconverted(maker->inputs[0], nodes);
    maker = tensors_.producer(value);
  } else if (!is_gathered) {
    return std::nullopt;
  }
  if (maker == nullptr || maker->inputs.empty()) return std::nullopt;
  nodes.insert(maker);
  const Step none{maker->inputs[0], -1};
  if (is_gathered) {
    const auto chosen = integers(*maker, 1);
    const bool is_one = chosen && chosen->size() == 1 && onnx_file::integer_attribute(*maker, "axis", 0) == 0;
    return is_one ? std::optional(Step{none.sequence, chosen->front()}) : std::nullopt;
  }
  if (maker->op_type == "Split") {
    const auto sizes = integers(*maker, 1);
    const bool is_each = sizes && std::ranges::all_of(*sizes, [](std::int64_t size) { return size == 1; });
    const auto output = std::ranges::find(maker->outputs, value) - maker->outputs.begin();
    const bool is_first = onnx_file::integer_attribute(*maker, "axis", 0) == 0;
    return is_each && is_first ? std::optional(Step{none.sequence, output}) : std::nullopt;
  }
  if (maker->op_type != "Slice" || integers(*maker, 3) != first_axis) return std::nullopt;
  const auto begin = integers(*maker, 1), end = integers(*maker, 2);
  const bool is_forward = maker->inputs.size() < 5 || integers(*maker, 4) == std::vector<std::int64_t>{1};
  const bool is_one = begin && end && begin->size() == 1 && begin->front() >= 0 && end->size() == 1 &&
                      end->front() == begin->front() + 1 && is_forward;
  return is_one ? std::optional(Step{none.sequence, begin->front()}) : std::nullopt;
}

std::string_view UnrolledLayers::unreversed(std::string_view value, bool& reversed, Nodes& nodes) const {
  const std::string_view sequence = unconverted(value, nodes);
  const OnnxNode* const maker = tensors_.producer(sequence);
  const std::vector<std::int64_t> back = {-1}, first_axis = {0};
  if (maker == nullptr || maker->op_type != "Slice" || integers(*maker, 4) != back) return sequence;
  const auto begin = integers(*maker, 1), end = integers(*maker, 2);
  const bool is_all = integers(*maker, 3) == first_axis && begin && begin->size() == 1 && end && end->size() == 1 &&
                      (begin->front() == -1 || begin->front() >= most_steps) && end->front() < -most_steps;
  if (!is_all) return sequence;
  reversed = true;
  nodes.insert(maker);
  return unconverted(maker->inputs[0], nodes);
}

bool UnrolledLayers::is_zero_state(std::string_view value) const {
  const auto is_zero = [](const TensorData& data) {
    const auto elements = program::Elements::of(data);
    for (std::size_t i = 0; elements && i < elements->size(); ++i) {
      if (elements->number(i) != 0) return false;
    }
    return elements.has_value();
  };
  for (int steps = 0; steps < most_moves; ++steps) {
    if (const TensorNumber tensor = tensors_.find(value); tensor != no_tensor)
      return is_zero(contents_.data(tensors_[tensor]));
    const OnnxNode* const maker = tensors_.producer(value);
    if (maker == nullptr || maker->inputs.empty()) return false;
    if (maker->op_type == "ConstantOfShape")
      return maker->tensors.empty() ||
             is_zero(contents_.data({.tensor = &maker->tensors.front(), .name = maker->name}));
    if (maker->op_type == "QuantizeLinear" || maker->op_type == "DequantizeLinear") {
      Nodes ignored;
      const std::string_view before = unconverted(value, ignored);
      if (before == value) return false;
      value = before;
    } else if (maker->op_type == "Slice" || is_movement(maker->op_type)) {
      value = maker->inputs[0];
    } else {
      return false;
    }
  }
  return false;
}

bool UnrolledLayers::holds(TensorNumber tensor, std::string_view parameter) const {
  const auto& expression = derivations_[static_cast<std::size_t>(tensor)].expression;
  bool transposed = false, found = false;
  if (!expression || !is_whole(*expression, transposed)) return false;
  for_each_parameter(*expression, [&](const ParameterStep& step) { found = found || is_named(step, parameter); });
  return found;
}

bool UnrolledLayers::hold(std::vector<TensorNumber> tensors, const std::vector<std::string>& parameters) const {
  for (const std::string& parameter : parameters) {
    const auto found = std::ranges::find_if(tensors, [&](TensorNumber each) {
      const auto& expression = derivations_[static_cast<std::size_t>(each)].expression;
      const ParameterStep* const bias = expression ? bias_in(*expression) : nullptr;
      return bias != nullptr && is_named(*bias, parameter);
    });
    if (found == tensors.end()) return false;
    tensors.erase(found);
  }
  return tensors.empty();
}

std::optional<UnrolledLayers::Layer> UnrolledLayers::layer_of(const OnnxNode& joins, const RecordedLayers& recorded,
                                                              const RecordedLayer& layer) const {
  const auto steps = static_cast<std::int64_t>(joins.inputs.size());
  if (steps != recorded.steps || onnx_file::integer_attribute(joins, "axis", 0) != 0) return std::nullopt;
  Layer found{.joins = &joins, .nodes = {&joins}};
  std::vector<std::string_view> states;
  for (const std::string_view input : joins.inputs) states.push_back(unconverted(input, found.nodes));
  std::string_view sequence;
  for (std::int64_t at = 0; at < steps; ++at) {
    const OnnxNode* const activates = tensors_.producer(states[static_cast<std::size_t>(at)]);
    if (activates == nullptr || activates->op_type != recorded.activation) return std::nullopt;
    found.nodes.insert(activates);
    Sum sum;
    if (!add_summands(activates->inputs[0], 1, sum, found.nodes, 0)) return std::nullopt;
    if (sum.others.size() != 1) return std::nullopt;
    const std::int64_t before = layer.is_reverse ? at + 1 : at - 1;
    const bool is_first = before < 0 || before >= steps;
    // The product of a state of zeros is nothing.
    bool follows = is_first && sum.products.empty();
    if (sum.products.size() == 1 && holds(sum.products[0].weight, layer.weight)) {
      const std::string_view state = sum.products[0].data;
      follows = is_first ? is_zero_state(state) : state == states[static_cast<std::size_t>(before)];
    }
    const auto step = follows ? step_of(sum.others[0], found.nodes) : std::nullopt;
    if (!step || (!sequence.empty() && step->sequence != sequence)) return std::nullopt;
    sequence = step->sequence;
    bool reversed = false;
    Sum read;
    const bool is_sum = add_summands(unreversed(sequence, reversed, found.nodes), steps, read, found.nodes, 0);
    if (!is_sum || step->number != (reversed ? steps - 1 - at : at)) return std::nullopt;
    if (read.products.size() != 1 || !read.others.empty() || !holds(read.products[0].weight, layer.input_weight))
      return std::nullopt;
    found.input = read.products[0].data;
    sum.biases.insert(sum.biases.end(), read.biases.begin(), read.biases.end());
    if (!hold(sum.biases, layer.biases)) return std::nullopt;
  }
  return found;
}

std::string_view UnrolledLayers::joined(const std::vector<Layer>& directions, Nodes& nodes) const {
  if (directions.size() == 1) return directions[0].joins->outputs[0];
  for (const OnnxNode* node : nodes_) {
    if (node->op_type != "Concat" || node->inputs.size() != directions.size()) continue;
    const std::int64_t axis = onnx_file::integer_attribute(*node, "axis", 0);
    Nodes between;
    bool is_same = axis == -1 || axis == 2;
    for (std::size_t i = 0; i < directions.size(); ++i)
      is_same = is_same && unconverted(node->inputs[i], between) == directions[i].joins->outputs[0];
    if (!is_same) continue;
    nodes.merge(between);
    nodes.insert(node);
    return node->outputs[0];
  }
  return {};
}

bool UnrolledLayers::is_closed(const Nodes& nodes, const std::set<std::string_view>& results) const {
  for (const OnnxNode* node : nodes) {
    for (const std::string_view output : node->outputs) {
      if (results.contains(output)) continue;
      const bool is_output =
          std::ranges::find(graph_.outputs, output, &onnx_file::OnnxValue::name) != graph_.outputs.end();
      const auto& readers = tensors_.readers(output);
      if (is_output || !std::ranges::all_of(readers, [&](const OnnxNode* each) { return nodes.contains(each); }))
        return false;
    }
  }
  return true;
}

std::set<const OnnxNode*> UnrolledLayers::proved(const RecordedLayers& recorded) {
  Nodes nodes;
  std::set<std::string_view> results;
  std::string_view before;  // what the layer has to read; empty: unknown
  for (std::size_t at = 0; at < recorded.layers.size(); at += recorded.directions) {
    std::vector<Layer> directions;
    for (std::size_t i = at; i < at + recorded.directions; ++i) {
      for (const OnnxNode* node : nodes_) {
        auto layer = node->op_type == "Concat" ? layer_of(*node, recorded, recorded.layers[i]) : std::nullopt;
        if (!layer || directions.size() > i - at) continue;
        directions.push_back(std::move(*layer));
      }
      if (directions.size() != i - at + 1) return {};
      Layer& own = directions.back();
      if (before.empty() ? own.input != directions[0].input : own.input != before) return {};
      // The state after the last step is a result of the operation.
      const auto last = recorded.layers[i].is_reverse ? own.joins->inputs.front() : own.joins->inputs.back();
      results.insert(unconverted(last, own.nodes));
      nodes.insert(own.nodes.begin(), own.nodes.end());
    }
    before = joined(directions, nodes);
    if (before.empty()) return {};
  }
  results.insert(before);
  if (!is_closed(nodes, results)) return {};
  static const std::set<std::string_view> choosing = {"Concat", "Gather", "Slice", "Split", "Squeeze"};
  std::erase_if(nodes, [](const OnnxNode* node) { return !choosing.contains(node->op_type); });
  return nodes;
}

}  // namespace whence::comparison
