#include "annotator/comparison/trial_program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <string_view>
#include <utility>

#include "annotator/comparison/operator_results.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/derivation/recorded_results.h"
#include "annotator/exporter/export.h"
#include "annotator/exporter/filled_weights.h"
#include "annotator/program/tensor_values.h"
#include "schema/element_count.h"
#include "schema/program_walk.h"

namespace whence::comparison {

using derivation::forget_recorded_results;
using derivation::is_movement;
using derivation::Weights;

namespace {

using graph::GraphNode;
using graph::GraphValueId;
using graph::no_value;
using Sizes64 = std::vector<std::int64_t>;

// A number from -2 to 2, of single precision.
float made_up_number(std::uint64_t seed, std::uint64_t place) {
  std::uint64_t bits = (seed + 1) * 0x9e3779b97f4a7c15U + place * 0xbf58476d1ce4e5b9U;  // splitmix64
  bits = (bits ^ bits >> 30U) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ bits >> 27U) * 0x94d049bb133111ebU;
  constexpr unsigned kept = 40;
  return static_cast<float>((bits ^ bits >> 31U) >> kept) * (4.0F / static_cast<float>(1U << (64 - kept))) - 2;
}

TensorData made_up(std::uint64_t seed, const Sizes64& shape) {
  std::vector<float> numbers(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = made_up_number(seed, i);
  return {DType::float32, shape, Bytes::copy_of(numbers.data(), numbers.size() * sizeof(float))};
}

// Integers are small, because they may choose rows; those of a mask are 0 and 1, and do not hide the first token.
TensorData made_up_input(std::size_t number, std::string_view name, DType dtype, const Sizes64& shape) {
  constexpr std::uint64_t inputs = std::uint64_t{1} << 40, rows = 8;
  TensorData data = made_up(inputs + number, shape);
  if (is_floating(dtype)) return data;
  const bool is_mask = dtype == DType::boolean || name.find("mask") != std::string_view::npos;
  const auto elements = program::Elements::of(data);
  std::vector<std::int64_t> integers(elements->size());
  const std::int64_t length = shape.empty() || shape.back() == 0 ? 1 : shape.back();
  for (std::size_t i = 0; i < integers.size(); ++i) {
    const double part = (elements->number(i) + 2) / 4;  // 0 to 1
    integers[i] = is_mask ? static_cast<std::int64_t>(part > 0.3) : static_cast<std::int64_t>(part * rows);
    if (is_mask && static_cast<std::int64_t>(i) % length == 0) integers[i] = 1;
  }
  const TensorData wide{DType::int64, shape, Bytes::copy_of(integers.data(), integers.size() * sizeof(std::int64_t))};
  return program::cast_tensor(wide, dtype).value_or(wide);
}

// Returns the names of the parameters that recurrent layers read, whose weights must be constants.
std::set<std::string> recurrent_weights(const Program& program) {
  std::set<std::string> names;
  for (const Node* node : operations(program)) {
    const bool is_recurrent = std::ranges::any_of(std::array{"lstm", "gru", "rnn"}, [&](std::string_view part) {
      return node->target.find(part) != std::string::npos;
    });
    if (!is_recurrent) continue;
    each_operand(*node, [&](ValueId id) {
      const Value& value = program.values[id];
      if (value.source == ValueSource::parameter) names.insert(program.parameters[ParameterId(value.index)].name);
    });
  }
  return names;
}

// Returns the sizes of a result of a recurrent layer: of the sequence [steps, directions, batch, width], or of a last
// state without steps.
std::optional<Sizes64> sizes_of_layer(const TrialProgram::Product& layer, std::size_t result) {
  constexpr std::size_t rank = 3;
  if (layer.operand == nullptr || layer.operand->shape.size() != rank) return std::nullopt;
  const std::int64_t width = layer.node->int_attribute("hidden_size", 0);
  const graph::Attribute* const direction = layer.node->find("direction");
  const auto* const stated = direction == nullptr ? nullptr : std::get_if<std::string>(&direction->value);
  const std::int64_t directions = stated != nullptr && *stated == "bidirectional" ? 2 : 1;
  const auto& read = layer.operand->shape;
  if (width < 1 || layer.node->int_attribute("layout", 0) != 0) return std::nullopt;
  return result == 0 ? Sizes64{read[0], directions, read[1], width} : Sizes64{directions, read[1], width};
}

// Returns true for operators with the same settings of simple types.
bool have_same_settings(const GraphNode& one, const GraphNode& other) {
  return one.attributes.size() == other.attributes.size() &&
         std::ranges::all_of(one.attributes, [&](const graph::Attribute& own) {
           const graph::Attribute* const theirs = other.find(own.name);
           return theirs != nullptr && std::visit(
                                           [&]<class Type>(const Type& value) {
                                             const Type* const stated = std::get_if<Type>(&theirs->value);
                                             if constexpr (std::equality_comparable<Type>)
                                               return stated != nullptr && *stated == value;
                                             return false;
                                           },
                                           own.value);
         });
}

}  // namespace

ProductKind product_kind(std::string_view op_type, std::size_t inputs) {
  if (op_type == "Einsum" && inputs != 2) return ProductKind::none;
  static const std::map<std::string_view, ProductKind> kinds = {{"Conv", ProductKind::convolution},
                                                                {"ConvInteger", ProductKind::convolution},
                                                                {"FusedConv", ProductKind::convolution},
                                                                {"ConvTranspose", ProductKind::transposed_convolution},
                                                                {"DynamicQuantizeLSTM", ProductKind::recurrent},
                                                                {"Einsum", ProductKind::sum_of_products},
                                                                {"FusedGemm", ProductKind::matrix},
                                                                {"FusedMatMul", ProductKind::matrix},
                                                                {"GRU", ProductKind::recurrent},
                                                                {"Gemm", ProductKind::matrix},
                                                                {"LSTM", ProductKind::recurrent},
                                                                {"MatMul", ProductKind::matrix},
                                                                {"MatMulInteger", ProductKind::matrix},
                                                                {"MatMulNBits", ProductKind::matrix},
                                                                {"RNN", ProductKind::recurrent}};
  const auto found = kinds.find(op_type);
  return found == kinds.end() ? ProductKind::none : found->second;
}

std::string equation_of(std::string_view stated) {
  std::string equation(stated);
  std::erase(equation, ' ');
  return equation;
}

std::string equation_of(const GraphNode& node) {
  const graph::Attribute* const stated = node.find("equation");
  const auto* const text = stated == nullptr ? nullptr : std::get_if<std::string>(&stated->value);
  return text == nullptr ? "" : equation_of(*text);
}

TensorData in_single(TensorData data) {
  if (!is_floating(data.dtype) || data.dtype == DType::float32) return data;
  auto converted = program::cast_tensor(data, DType::float32);
  return converted ? std::move(*converted) : std::move(data);
}

bool are_near(const TensorData& own, const TensorData& expected, double tolerance) {
  const auto a = program::Elements::of(own), b = program::Elements::of(expected);
  if (!a || !b || a->size() != b->size()) return false;
  constexpr double infinite = 1e4;
  double largest = 0;
  for (std::size_t i = 0; i < b->size(); ++i) {
    const double size = std::fabs(b->number(i));
    if (size < infinite) largest = std::max(largest, size);
  }
  // A number at the edge of a step may fall to the other side.
  constexpr std::size_t most_at_edges = 1000;  // one of so many
  std::size_t others = 0;
  for (std::size_t i = 0; i < b->size(); ++i) {
    const double theirs = b->number(i);
    if (!(std::fabs(theirs) < infinite)) continue;
    if (!(std::fabs(a->number(i) - theirs) <= tolerance * largest) && ++others > b->size() / most_at_edges)
      return false;
  }
  return true;
}

TensorData made_up_rows(std::int32_t role, const TensorData& indices, const Sizes64& row) {
  constexpr std::uint64_t tables = std::uint64_t{1} << 41, columns = std::uint64_t{1} << 24;
  const auto elements = program::Elements::of(indices);
  const auto width = static_cast<std::uint64_t>(element_count(row));
  std::vector<float> numbers;
  for (std::size_t i = 0; elements && i < elements->size(); ++i) {
    const auto first = static_cast<std::uint64_t>(elements->integer(i)) * columns;
    for (std::uint64_t column = 0; column < width; ++column)
      numbers.push_back(made_up_number(tables + static_cast<std::uint64_t>(role), first + column));
  }
  Sizes64 shape = indices.shape;
  shape.insert(shape.end(), row.begin(), row.end());
  return {DType::float32, shape, Bytes::copy_of(numbers.data(), numbers.size() * sizeof(float))};
}

std::optional<TensorData> with_bias(const TensorData& sums, const TensorData& bias, ProductKind kind) {
  GraphNode add;
  add.op_type = "Add";
  add.outputs = {0};
  TensorData aligned = bias;
  // A convolution has its channels on the second axis.
  if (kind != ProductKind::matrix && bias.shape.size() == 1 && sums.shape.size() > 2)
    aligned.shape.insert(aligned.shape.end(), sums.shape.size() - 2, 1);
  auto results = results_of(add, {&sums, &aligned});
  if (!results || results->front().shape != sums.shape) return std::nullopt;
  return std::move(results->front());
}

TrialProgram::TrialProgram(const Program& program, const Weights& weights, const Wiring& wiring,
                           std::set<std::int32_t> tables, HasNode has_node)
    : weights_(weights), wiring_(wiring), tables_(std::move(tables)), has_node_(std::move(has_node)) {
  exporter::ExportOptions options;
  options.unsupported_as_domain = true;
  options.weights_as_inputs = true;
  options.weights_kept = recurrent_weights(program);
  options.simplify = false;
  Program computing = program;
  forget_recorded_results(computing);
  const Program filled = exporter::with_filled_weights(computing);
  Result<graph::Graph> graph = exporter::export_program(filled, options);
  if (!graph) return;
  graph_ = std::make_unique<const graph::Graph>(std::move(*graph));
  uses_ = graph_->uses();
  make_inputs(filled);
  for (const GraphNode& node : graph_->nodes) {
    if (!node.removed) run(node);
  }
}

void TrialProgram::make_inputs(const Program& program) {
  std::unordered_map<std::string_view, const Parameter*> parameters;
  for (const Parameter& parameter : program.parameters) parameters.emplace(parameter.name, &parameter);
  for (std::size_t i = 0; i < graph_->inputs.size(); ++i) {
    const GraphValueId id = graph_->inputs[i];
    const graph::GraphValue& value = graph_->values[static_cast<std::size_t>(id)];
    if (const auto found = parameters.find(value.name); found != parameters.end()) {
      parameters_.emplace(id, *found->second);
      weights_alone_.insert(id);
      continue;
    }
    live_.insert(id);
    const auto sizes = sizes_of(id);
    if (sizes) keep(id, made_up_input(i, value.name, value.dtype, *sizes));
  }
  for (const graph::Initializer& initializer : graph_->initializers) {
    const std::string& name = graph_->values[static_cast<std::size_t>(initializer.value)].name;
    const auto found = initializer.parameter ? parameters.find(name) : parameters.end();
    if (found != parameters.end()) parameters_.emplace(initializer.value, *found->second);
    if (initializer.parameter || initializer.rearranged)
      weights_alone_.insert(initializer.value);
    else
      keep(initializer.value, initializer.data);
  }
}

std::optional<Sizes64> TrialProgram::sizes_of(GraphValueId id) const {
  const auto& dims = graph_->values[static_cast<std::size_t>(id)].dims;
  if (!dims) return std::nullopt;
  Sizes64 sizes;
  for (const Dim& dim : *dims) {
    if (dim.size < 0) return std::nullopt;
    sizes.push_back(dim.size);
  }
  const std::int64_t count = element_count(sizes);
  return count >= 0 && count <= most_tried_elements ? std::optional(std::move(sizes)) : std::nullopt;
}

void TrialProgram::keep(GraphValueId id, TensorData data) {
  if (id == no_value || !data.bytes.in_memory() || data.element_count() > most_tried_elements) return;
  bytes_ += data.bytes.size();
  if (bytes_ <= most_tried_bytes) values_[id] = in_single(std::move(data));
}

const TensorData* TrialProgram::value(GraphValueId id) {
  if (const auto found = values_.find(id); found != values_.end()) return found->second ? &*found->second : nullptr;
  const GraphNode* const maker = weights_alone_.contains(id) ? graph_->producer(id) : nullptr;
  if (maker != nullptr) {
    values_[id] = std::nullopt;
    compute(*maker);
    const auto& made = values_[id];
    return made ? &*made : nullptr;
  }
  const auto parameter = parameters_.find(id);
  if (parameter == parameters_.end() || parameter->second.data.element_count() > most_tried_elements) return nullptr;
  const std::string& name = parameter->second.name;
  const bool is_stored = weights_.find(name) != nullptr;
  TensorData data = is_stored ? weights_.value(name) : parameter->second.data;
  auto& known = values_[id];
  if (data.shape == parameter->second.data.shape && data.bytes.in_memory() &&
      (is_stored || !parameter->second.persistent))
    known = in_single(std::move(data));
  return known ? &*known : nullptr;
}

std::int32_t TrialProgram::role_of(const GraphNode& node) const {
  return node.origin.ops.size() == 1 ? wiring_.role_of(node.origin.ops[0]) : -1;
}

void TrialProgram::run(const GraphNode& node) {
  const auto is_in = [&](const std::set<GraphValueId>& values) {
    return std::ranges::any_of(node.inputs, [&](GraphValueId input) { return values.contains(input); });
  };
  const bool is_live = is_in(live_), has_weights = is_in(weights_alone_);
  if (is_live) live_.insert(node.outputs.begin(), node.outputs.end());
  if (!is_live && has_weights) {
    weights_alone_.insert(node.outputs.begin(), node.outputs.end());
    return;  // computed where it is read: not the weights of products
  }
  const ProductKind kind = is_live && has_weights ? product_kind(node.op_type, node.inputs.size()) : ProductKind::none;
  if (kind != ProductKind::none) return run_product(node, kind);
  compute(node);
}

void TrialProgram::compute(const GraphNode& node) {
  if (node.op_type == "Gather" && choose_rows(node)) return;
  simplify::Constants inputs;
  for (const GraphValueId input : node.inputs) {
    inputs.push_back(input == no_value ? nullptr : value(input));
    if (input != no_value && inputs.back() == nullptr) return;
  }
  auto results = results_of(node, inputs);
  if (!results) make_up(node);
  for (std::size_t i = 0; results && i < results->size() && i < node.outputs.size(); ++i)
    keep(node.outputs[i], std::move((*results)[i]));
}

bool TrialProgram::choose_rows(const GraphNode& node) {
  const std::int32_t role = role_of(node);
  const auto parameter = parameters_.find(node.inputs[0]);
  if (parameter == parameters_.end() || !tables_.contains(role) || node.int_attribute("axis", 0) != 0) return false;
  const auto& dims = parameter->second.data.shape;
  const TensorData* const indices = value(node.inputs[1]);
  if (indices != nullptr && !dims.empty()) {
    const Sizes64 row(dims.begin() + 1, dims.end());
    if (indices->element_count() * element_count(row) <= most_tried_elements)
      keep(node.outputs[0], made_up_rows(role, *indices, row));
  }
  return true;
}

void TrialProgram::run_product(const GraphNode& node, ProductKind kind) {
  constexpr std::size_t bias_slot = 2;
  Product product{&node, kind, node.origin.ops.empty() ? -1 : node.origin.ops[0]};
  const auto is_weight = [&](std::size_t slot) { return weights_alone_.contains(node.inputs[slot]); };
  if (node.inputs.size() < 2 || node.origin.ops.size() != 1) return;
  const bool may_be_first = kind == ProductKind::matrix || kind == ProductKind::sum_of_products;
  product.slot = may_be_first && is_weight(0) ? 1 : 0;
  if (is_weight(product.slot) || !is_weight(1 - product.slot)) return;
  const bool is_turned = node.int_attribute("transA", 0) != 0 || node.op_type == "FusedMatMul";
  if (is_turned) return;
  product.operand = value(node.inputs[product.slot]);
  make_up(product);
  for (std::size_t i = 0; i < product.results.size() && i < node.outputs.size(); ++i) {
    const bool has_bias =
        kind != ProductKind::recurrent && node.inputs.size() > bias_slot && node.inputs[bias_slot] != no_value;
    const TensorData* const bias = has_bias ? value(node.inputs[bias_slot]) : nullptr;
    if (!has_bias)
      keep(node.outputs[i], product.results[i]);
    else if (bias == nullptr)
      continue;
    else if (auto sum = with_bias(product.results[i], *bias, kind))
      keep(node.outputs[i], std::move(*sum));
  }
  products_.push_back(std::move(product));
}

void TrialProgram::make_up(Product& product) const {
  constexpr std::uint64_t outputs = 3;
  constexpr double tolerance = 1e-6;
  // Tools compute equal products once.
  const auto is_same = [&](const Product& other) {
    return wiring_.role_of(other.operation) == wiring_.role_of(product.operation) && other.kind == product.kind &&
           other.operand != nullptr && product.operand != nullptr && other.operand->shape == product.operand->shape &&
           are_near(*other.operand, *product.operand, tolerance);
  };
  const auto equal =
      product.kind == ProductKind::recurrent ? products_.end() : std::ranges::find_if(products_, is_same);
  if (equal != products_.end()) {
    product.results = equal->results;
    return;
  }
  for (std::size_t i = 0; i < product.node->outputs.size(); ++i) {
    const bool is_layer = product.kind == ProductKind::recurrent;
    auto sizes = is_layer ? sizes_of_layer(product, i) : sizes_of(product.node->outputs[i]);
    if (product.node->outputs[i] == no_value) sizes = Sizes64{0};
    if (!sizes) {
      product.results.clear();
      return;
    }
    product.results.push_back(made_up(products_.size() * outputs + i, *sizes));
  }
}

std::vector<const TensorData*> TrialProgram::read_alone(const std::set<std::int32_t>& roles) {
  std::vector<const TensorData*> found;
  for (const GraphNode& node : graph_->nodes) {
    const bool is_theirs = std::ranges::any_of(
        node.origin.ops, [&](std::int32_t operation) { return roles.contains(wiring_.role_of(operation)); });
    if (node.removed || !is_theirs) continue;
    for (GraphValueId input : node.inputs) {
      while (input != no_value && !live_.contains(input)) {
        if (const TensorData* const data = value(input)) found.push_back(data);
        const GraphNode* const maker = graph_->producer(input);
        input = maker != nullptr && is_movement(maker->op_type) ? maker->inputs[0] : no_value;
      }
    }
  }
  return found;
}

bool TrialProgram::read_the_same(const GraphNode& one, const GraphNode& other) {
  constexpr double tolerance = 1e-6;
  return one.op_type == other.op_type && one.inputs.size() == other.inputs.size() && have_same_settings(one, other) &&
         std::ranges::equal(one.inputs, other.inputs, [&](GraphValueId own, GraphValueId theirs) {
           if (own == theirs) return true;
           const TensorData* const data = value(own);
           const TensorData* const others = value(theirs);
           return data != nullptr && others != nullptr && data->shape == others->shape &&
                  are_near(*data, *others, tolerance);
         });
}

void TrialProgram::make_up(const GraphNode& node) {
  constexpr std::uint64_t operators = std::uint64_t{1} << 42, outputs = 16;
  const bool is_live = std::ranges::any_of(node.inputs, [&](GraphValueId input) { return live_.contains(input); });
  if (!is_live || node.origin.ops.size() != 1 || !has_node_(node, role_of(node))) return;
  Uncomputed made{&node, role_of(node)};
  // Tools compute equal results once.
  const auto equal =
      std::ranges::find_if(uncomputed_, [&](const Uncomputed& other) { return read_the_same(node, *other.node); });
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const GraphValueId output = node.outputs[i];
    const auto sizes = output == no_value ? std::nullopt : sizes_of(output);
    // Integers choose elements: not all are possible.
    if (!sizes || !is_floating(graph_->values[static_cast<std::size_t>(output)].dtype)) return;
    made.results.push_back(equal == uncomputed_.end() ? made_up(operators + uncomputed_.size() * outputs + i, *sizes)
                                                      : equal->results[i]);
  }
  for (std::size_t i = 0; i < made.results.size(); ++i) keep(node.outputs[i], made.results[i]);
  uncomputed_.push_back(std::move(made));
}

std::set<std::int32_t> TrialProgram::linear_ones(const std::set<std::int32_t>& operations, bool may_cut) const {
  static const std::set<std::string_view> linear = {"Add",      "BatchNormalization",
                                                    "Cast",     "Div",
                                                    "Expand",   "Flatten",
                                                    "Identity", "Mul",
                                                    "Neg",      "Pad",
                                                    "Reshape",  "Squeeze",
                                                    "Sub",      "Transpose",
                                                    "Unsqueeze"};
  std::set<std::int32_t> kept = operations;
  for (const GraphNode& node : graph_->nodes) {
    const bool is_live = std::ranges::any_of(node.outputs, [&](GraphValueId output) { return live_.contains(output); });
    const bool cuts = node.op_type == "Clip" || node.op_type == "Relu";
    const bool is_kept =
        linear.contains(node.op_type) || (may_cut && cuts) || product_kind(node.op_type) != ProductKind::none;
    if (!is_live || is_kept) continue;
    for (const std::int32_t operation : node.origin.ops) kept.erase(operation);
  }
  return kept;
}

const TensorData* TrialProgram::result_of(const Product& product, const std::set<std::int32_t>& operations) {
  std::set<const GraphNode*> inside = {product.node};
  std::set<std::int32_t> covered = {product.operation};
  std::set<GraphValueId> leaving;
  std::vector<const GraphNode*> open = {product.node};
  std::vector<GraphValueId> made;
  while (!open.empty()) {
    const GraphNode* const node = open.back();
    open.pop_back();
    for (const GraphValueId output : node->outputs) {
      if (output == no_value) continue;
      made.push_back(output);
      for (const std::int32_t use : uses_[static_cast<std::size_t>(output)]) {
        const GraphNode* const reader = use < 0 ? nullptr : &graph_->nodes[static_cast<std::size_t>(use)];
        const bool is_own =
            reader != nullptr && reader->origin.ops.size() == 1 && operations.contains(reader->origin.ops[0]);
        if (!is_own || !inside.insert(reader).second) continue;
        covered.insert(reader->origin.ops[0]);
        open.push_back(reader);
      }
    }
  }
  for (const GraphValueId output : made) {
    for (const std::int32_t use : uses_[static_cast<std::size_t>(output)]) {
      const bool leaves = use < 0 || !inside.contains(&graph_->nodes[static_cast<std::size_t>(use)]);
      if (leaves) leaving.insert(output);
    }
  }
  return leaving.size() == 1 && covered == operations ? value(*leaving.begin()) : nullptr;
}

}  // namespace whence::comparison
