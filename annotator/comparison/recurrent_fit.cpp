#include "annotator/comparison/recurrent_fit.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "annotator/comparison/wiring.h"
#include "annotator/derivation/evaluate.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/match/op_class.h"
#include "annotator/program/tensor_values.h"
#include "schema/element_count.h"
#include "schema/printable.h"

namespace whence::comparison {

using derivation::CastStep;
using derivation::ConcatenateStep;
using derivation::Contents;
using derivation::Derivation;
using derivation::Expression;
using derivation::FileTensors;
using derivation::is_arithmetic;
using derivation::is_movement;
using derivation::no_tensor;
using derivation::ParameterStep;
using derivation::PickStep;
using derivation::ProgramForm;
using derivation::QuantiseStep;
using derivation::ReshapeStep;
using derivation::Run;
using derivation::TensorNumber;
using derivation::transposed;

using onnx_file::OnnxNode;

namespace {

constexpr std::int64_t first_number = 1 << 20;      // of a result: larger than sizes and positions
constexpr int longest = 100;                        // a chain of movements
constexpr std::size_t first_start = 5, starts = 2;  // input slots of the initial states

bool is_recurrent(std::string_view op_type) { return op_type == "RNN" || op_type == "GRU" || op_type == "LSTM"; }

// Returns true for operators that only move or choose elements of their first input.
bool only_moves(std::string_view op_type) {
  return op_type == "Slice" || op_type == "Gather" || (is_movement(op_type) && op_type != "Constant");
}

bool is_zero(const TensorData& data) {
  const auto elements = program::Elements::of(data);
  if (!elements) return false;
  for (std::size_t i = 0; i < elements->size(); ++i) {
    if (elements->number(i) != 0) return false;
  }
  return true;
}

bool has_results(const TensorData& data) {
  const auto elements = program::Elements::of(data);
  return elements && data.dtype == DType::int64 && elements->size() > 0 && elements->number(0) >= first_number;
}

// Elements in their order, in any shape.
bool same_elements(const TensorData& one, const TensorData& other) {
  const auto own = program::Elements::of(one), theirs = program::Elements::of(other);
  if (!own || !theirs || own->size() != theirs->size()) return false;
  for (std::size_t i = 0; i < own->size(); ++i) {
    if (own->number(i) != theirs->number(i)) return false;
  }
  return true;
}

// Adds the orders of axes in which `one` has the elements of `other`, without axes of one element. An optimizer moves a
// Transpose past the operators that compute each element alone.
void add_orders(const TensorData& one, const TensorData& other, std::set<std::vector<std::int64_t>>& orders) {
  TensorData plain = other;
  std::erase(plain.shape, 1);
  std::vector<std::int64_t> order(plain.shape.size());
  std::iota(order.begin(), order.end(), 0);
  constexpr std::size_t most_axes = 4;
  do {
    if (same_elements(one, order.size() < 2 ? plain : transposed(plain, {order}))) orders.insert(order);
  } while (order.size() <= most_axes && std::ranges::next_permutation(order).found);
}

// Appends the rows of parameters of which a tensor consists, as the parameter and the row; returns false where elements
// are not in the order of rows.
bool add_rows(const Expression& expression, std::vector<std::pair<const ParameterStep*, std::int64_t>>& rows) {
  if (const auto* const parameter = std::get_if<ParameterStep>(&expression.step)) {
    const std::int64_t count = parameter->dims.empty() ? 1 : parameter->dims[0];
    for (std::int64_t row = 0; row < count; ++row) rows.emplace_back(parameter, row);
    return true;
  }
  if (std::holds_alternative<ConcatenateStep>(expression.step)) {
    return std::ranges::all_of(expression.inputs, [&](const Expression& input) { return add_rows(input, rows); });
  }
  const bool keeps = std::holds_alternative<ReshapeStep>(expression.step) ||
                     std::holds_alternative<CastStep>(expression.step) ||
                     std::holds_alternative<QuantiseStep>(expression.step);
  if (keeps) return add_rows(expression.inputs.at(0), rows);
  const auto* const pick = std::get_if<PickStep>(&expression.step);
  if (pick == nullptr) return false;
  std::vector<std::pair<const ParameterStep*, std::int64_t>> all;
  if (!add_rows(expression.inputs.at(0), all)) return false;
  for (const Run& run : pick->runs) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      const std::int64_t row = run.first + i * run.step;
      if (row < 0 || row >= static_cast<std::int64_t>(all.size())) return false;
      rows.push_back(all[static_cast<std::size_t>(row)]);
    }
  }
  return true;
}

// Returns the numbers of steps and of calls in the recorded example, as far as the first input shows them. Both sides
// move results of any sizes in the same way, unless they state sizes.
std::pair<std::int64_t, std::int64_t> recorded_sizes(const graph::Graph& graph) {
  std::pair<std::int64_t, std::int64_t> sizes = {3, 2};
  for (const graph::GraphValueId input : graph.inputs) {
    const auto& dims = graph.values[static_cast<std::size_t>(input)].dims;
    if (!dims || dims->size() < 2 || dims->at(0).size <= 0 || dims->at(1).size <= 0) continue;
    return {dims->at(1).size, dims->at(0).size};
  }
  return sizes;
}

// Returns the gates of PyTorch in the order in which ONNX reads them.
std::vector<std::int64_t> gates_of(std::string_view op_type) {
  if (op_type == "LSTM") return {0, 3, 1, 2};
  return op_type == "GRU" ? std::vector<std::int64_t>{1, 0, 2} : std::vector<std::int64_t>{0};
}

}  // namespace

RecurrentFit::RecurrentFit(const std::vector<const OnnxNode*>& nodes, const std::vector<Placed>& placed,
                           const FileTensors& tensors, const std::vector<Derivation>& derivations, Contents& contents,
                           const std::vector<ProgramForm>& forms)
    : nodes_(nodes), placed_(placed), tensors_(tensors), derivations_(derivations), contents_(contents) {
  std::map<std::int32_t, std::vector<const OnnxNode*>> own;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (is_recurrent(nodes[i]->op_type) && placed[i].operations.size() == 1)
      own[placed[i].operations[0]].push_back(nodes[i]);
  }
  for (const ProgramForm& form : forms) {
    const Layers layers = layers_of(*form.graph);
    const auto is_same = [&](const auto& each) {
      const auto found = layers.find(each.first);
      return found != layers.end() && found->second.size() == each.second.size();
    };
    if (own.empty() || form_ != nullptr || !std::ranges::all_of(own, is_same)) continue;
    form_ = form.graph;
    for (const auto& [operation, all] : own) {
      for (std::size_t i = 0; i < all.size(); ++i) layer_of_[all[i]] = layers.at(operation)[i];
    }
  }
  if (form_ != nullptr) number_results();
}

RecurrentFit::Layers RecurrentFit::layers_of(const graph::Graph& graph) {
  Layers layers;
  for (const graph::GraphNode& node : graph.nodes) {
    if (!node.removed && is_recurrent(node.op_type) && node.origin.ops.size() == 1)
      layers[node.origin.ops[0]].push_back(&node);
  }
  return layers;
}

void RecurrentFit::number_results() {
  std::map<std::string_view, TensorData> of_file;
  std::map<graph::GraphValueId, TensorData> of_program;
  std::int64_t next = first_number;
  const auto [steps, batch] = recorded_sizes(*form_);
  for (const auto& [node, layer] : layer_of_) {
    const TensorNumber weight = node->inputs.size() > 2 ? tensors_.find(node->inputs[2]) : no_tensor;
    if (weight == no_tensor || tensors_[weight].tensor->dims.size() != 3) continue;
    const auto& dims = tensors_[weight].tensor->dims;
    for (std::size_t i = 0; i < layer->outputs.size() && i < node->outputs.size(); ++i) {
      std::vector<std::int64_t> shape = {dims[0], batch, dims[2]};  // directions, calls, numbers
      if (i == 0) shape.insert(shape.begin(), steps);
      const std::int64_t count = element_count(shape);
      constexpr std::int64_t most = 1 << 18;
      if (layer->outputs[i] == graph::no_value || count <= 0 || count > most) continue;
      std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
      std::iota(numbers.begin(), numbers.end(), next);
      next += count;
      const TensorData data{DType::int64, shape, Bytes::copy_of(numbers.data(), numbers.size() * sizeof(std::int64_t))};
      if (!node->outputs[i].empty()) of_file.emplace(node->outputs[i], data);
      of_program.emplace(layer->outputs[i], data);
    }
  }
  file_values_ = std::make_unique<FileValues>(tensors_, contents_, std::move(of_file));
  program_values_ = std::make_unique<ProgramValues>(*form_, std::move(of_program));
}

std::string RecurrentFit::difference(std::size_t number) {
  const OnnxNode& node = *nodes_[number];
  if (is_recurrent(node.op_type)) {
    if (std::string rows = other_rows(node); !rows.empty()) return rows;
  }
  if (form_ == nullptr) return "";
  const auto layer = layer_of_.find(&node);
  if (layer == layer_of_.end()) return other_results(number);
  std::string found = other_sequence(node, *layer->second);
  return found.empty() ? other_start(node, *layer->second) : found;
}

std::string RecurrentFit::other_sequence(const OnnxNode& node, const graph::GraphNode& layer) {
  if (node.inputs.empty() || layer.inputs.empty()) return "";
  const TensorData* const own = file_values_->of(node.inputs[0]);
  const TensorData* const expected = program_values_->of(layer.inputs[0]);
  if (own == nullptr || expected == nullptr || same_elements(*own, *expected)) return "";
  return "reads other results of the layer before it than in the program, or in another order";
}

std::string RecurrentFit::other_start(const OnnxNode& node, const graph::GraphNode& layer) const {
  for (std::size_t slot = first_start; slot < first_start + starts; ++slot) {
    const std::string_view value = slot < node.inputs.size() ? node.inputs[slot] : std::string_view();
    const graph::GraphValueId theirs = slot < layer.inputs.size() ? layer.inputs[slot] : graph::no_value;
    const Start own = start_of(value), expected = start_of(theirs);
    if (expected != Start::unknown && own != Start::unknown && own != expected)
      return "starts from another state than in the program";
    const TensorData* const state = own == Start::layer ? file_values_->of(value) : nullptr;
    const TensorData* const stated = expected == Start::layer ? program_values_->of(theirs) : nullptr;
    if (state != nullptr && stated != nullptr && !same_elements(*state, *stated))
      return "starts from another state of a layer than in the program";
  }
  return "";
}

RecurrentFit::Start RecurrentFit::start_of(std::string_view value) const {
  if (value.empty()) return Start::zeros;
  for (int steps = 0; steps < longest; ++steps) {
    if (const TensorNumber tensor = tensors_.find(value); tensor != no_tensor)
      return is_zero(contents_.data(tensors_[tensor])) ? Start::zeros : Start::numbers;
    const OnnxNode* const maker = tensors_.producer(value);
    if (maker == nullptr) return Start::input;
    if (is_recurrent(maker->op_type)) return Start::layer;
    if (maker->op_type == "ConstantOfShape") {
      return maker->tensors.empty() || is_zero(contents_.data({.tensor = &maker->tensors.front(), .name = maker->name}))
                 ? Start::zeros
                 : Start::numbers;
    }
    if (!only_moves(maker->op_type) || maker->inputs.empty())
      return is_arithmetic(maker->op_type) ? Start::computed : Start::unknown;
    value = maker->inputs[0];
  }
  return Start::unknown;
}

RecurrentFit::Start RecurrentFit::start_of(graph::GraphValueId value) const {
  if (value == graph::no_value) return Start::zeros;
  for (int steps = 0; steps < longest; ++steps) {
    const graph::Initializer* const initializer = form_->initializer(value);
    if (initializer != nullptr && initializer->parameter) return Start::numbers;
    if (const TensorData* const constant = form_->constant(value))
      return is_zero(*constant) ? Start::zeros : Start::numbers;
    if (initializer != nullptr) return Start::unknown;
    const graph::GraphNode* const maker = form_->producer(value);
    if (maker == nullptr) return Start::input;
    if (is_recurrent(maker->op_type)) return Start::layer;
    if (maker->op_type == "ConstantOfShape") {
      const graph::Attribute* const stated = maker->find("value");
      const auto* const number = stated == nullptr ? nullptr : std::get_if<TensorData>(&stated->value);
      return number == nullptr || is_zero(*number) ? Start::zeros : Start::numbers;
    }
    if (!only_moves(maker->op_type) || maker->inputs.empty())
      return is_arithmetic(maker->op_type) ? Start::computed : Start::unknown;
    value = maker->inputs[0];
  }
  return Start::unknown;
}

std::string RecurrentFit::other_rows(const OnnxNode& node) const {
  constexpr std::size_t first_weight = 1, last_weight = 3;
  const std::vector<std::int64_t> gates = gates_of(node.op_type);
  for (std::size_t slot = first_weight; slot <= last_weight && slot < node.inputs.size(); ++slot) {
    const TensorNumber tensor = tensors_.find(node.inputs[slot]);
    if (tensor == no_tensor || !derivations_[static_cast<std::size_t>(tensor)].expression) continue;
    std::vector<std::pair<const ParameterStep*, std::int64_t>> rows;
    const std::string other = "reads a weight whose rows are not the gates in their order";
    if (!add_rows(*derivations_[static_cast<std::size_t>(tensor)].expression, rows)) return other;
    for (std::size_t begin = 0; begin < rows.size();) {
      const ParameterStep* const parameter = rows[begin].first;
      const std::int64_t count = parameter->dims.empty() ? 0 : parameter->dims[0];
      const auto gate = count / static_cast<std::int64_t>(gates.size());
      if (gate == 0 || begin + static_cast<std::size_t>(count) > rows.size()) return other;
      for (std::int64_t i = 0; i < count; ++i) {
        const auto& [own, row] = rows[begin + static_cast<std::size_t>(i)];
        const std::int64_t expected = gates[static_cast<std::size_t>(i / gate)] * gate + i % gate;
        if (own->name != parameter->name || row != expected) return other;
      }
      begin += static_cast<std::size_t>(count);
    }
  }
  return "";
}

std::string RecurrentFit::other_results(std::size_t number) {
  const OnnxNode& node = *nodes_[number];
  const Placed& place = placed_[number];
  if (!place.is_certain || place.operations.size() != 1 || !is_arithmetic(node.op_type)) return "";
  std::vector<const TensorData*> expected;
  for (const graph::GraphNode& each : form_->nodes) {
    const bool is_same = !each.removed && match::op_class(each.op_type) == match::op_class(node.op_type) &&
                         each.origin.ops == place.operations;
    if (!is_same) continue;
    for (const graph::GraphValueId input : each.inputs) {
      const TensorData* const data = input == graph::no_value ? nullptr : program_values_->of(input);
      if (data != nullptr && has_results(*data)) expected.push_back(data);
    }
  }
  if (expected.empty()) return "";
  std::optional<std::set<std::vector<std::int64_t>>> common;  // all operands have one order
  for (const std::string_view input : node.inputs) {
    const TensorData* const own = input.empty() ? nullptr : file_values_->of(input);
    if (own == nullptr || !has_results(*own)) continue;
    std::set<std::vector<std::int64_t>> orders;
    for (const TensorData* each : expected) add_orders(*own, *each, orders);
    if (common) std::erase_if(orders, [&](const auto& order) { return !common->contains(order); });
    common = std::move(orders);
  }
  return common && common->empty() ? "reads other results of a recurrent layer than in the program, or in another order"
                                   : "";
}

std::vector<std::string> RecurrentFit::other_outputs(const onnx_file::OnnxGraph& graph) {
  std::vector<std::string> differences;
  if (form_ == nullptr || graph.outputs.size() != form_->outputs.size()) return differences;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const TensorData* const own = file_values_->of(graph.outputs[i].name);
    const TensorData* const expected = program_values_->of(form_->outputs[i]);
    if (own != nullptr && expected != nullptr && has_results(*own) && !same_elements(*own, *expected))
      differences.push_back("the output '" + printable(graph.outputs[i].name) +
                            "' holds other results of a recurrent layer than in the program, or in another order");
  }
  return differences;
}

}  // namespace whence::comparison
