#include "annotator/comparison/trial_run.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "annotator/comparison/node_counts.h"
#include "annotator/comparison/operator_results.h"
#include "annotator/comparison/packed_products.h"
#include "annotator/comparison/small_values.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/onnx_file/node_attributes.h"
#include "annotator/program/tensor_values.h"
#include "schema/element_count.h"
#include "schema/printable.h"

namespace whence::comparison {

using derivation::bias_slot;
using derivation::ByChannelStep;
using derivation::Expression;
using derivation::FileTensor;
using derivation::FileTensors;
using derivation::FoldStep;
using derivation::no_tensor;
using derivation::NumberStep;
using derivation::PadStep;
using derivation::TensorNumber;
using derivation::Verdict;

using onnx_file::OnnxNode;

namespace {

// Returns the number that a tool multiplied into a weight; nullopt if the step does something else.
std::optional<double> factor_of(const Expression& expression) {
  const auto* const step = std::get_if<ByChannelStep>(&expression.step);
  if (step == nullptr || step->operation != ByChannelStep::Operation::multiply) return std::nullopt;
  const auto* const number = std::get_if<NumberStep>(&expression.inputs.at(1).step);
  return number == nullptr ? std::nullopt : std::optional<double>(number->number);
}

// Returns the product of all these numbers.
double factor_in(const Expression& expression) {
  if (expression.inputs.empty()) return 1;
  return factor_of(expression).value_or(1) * factor_in(expression.inputs[0]);
}

// Returns true if something else than the weight of one product and a number is in a tensor: a norm, factors, padding.
bool is_folded(const Expression& expression) {
  if (factor_of(expression)) return is_folded(expression.inputs[0]);
  const bool folds = std::holds_alternative<FoldStep>(expression.step) ||
                     std::holds_alternative<ByChannelStep>(expression.step) ||
                     std::holds_alternative<PadStep>(expression.step);
  return folds || std::ranges::any_of(expression.inputs, is_folded);
}

// Constants in floating point may be rounded: to integers of a quantiser, or to 16 bits.
double tolerance_of(const FileTensors& tensors) {
  constexpr double single = 2e-3, half = 1e-2, integers = 5e-2;
  if (!tensors.quantised().empty() || !tensors.run_time_weights().empty()) return integers;
  const bool is_half = std::ranges::any_of(tensors.all(), [](const FileTensor& tensor) {
    const DType dtype = from_onnx(tensor.tensor->data_type);
    return dtype == DType::float16 || dtype == DType::bfloat16;
  });
  return is_half ? half : single;
}

// Returns true if a product multiplies the same rows or pictures in both: equal numbers can stand in other shapes.
bool has_same_layout(const TensorData& own, const TensorData& expected, ProductKind kind, std::size_t slot) {
  const auto& shape = own.shape;
  const auto& others = expected.shape;
  if (kind == ProductKind::matrix && slot == 0) return shape.empty() || others.empty() || shape.back() == others.back();
  if (kind != ProductKind::convolution && kind != ProductKind::transposed_convolution) return true;
  const auto is_wider = [](std::int64_t size) { return size != 1; };
  return std::ranges::equal(shape | std::views::filter(is_wider), others | std::views::filter(is_wider));
}

bool has_same_count(const TensorData& one, const TensorData& other) {
  return one.element_count() == other.element_count();
}

// Sums of products of integers are other numbers than those that they stand for, until a node multiplies by the scales.
constexpr double scale_of_integers = 4;

TensorData times(TensorData data, double factor) {
  const auto elements = program::Elements::of(data);
  if (factor == 1 || !elements) return data;
  std::vector<float> numbers(elements->size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(elements->number(i) * factor);
  return {DType::float32, data.shape, Bytes::copy_of(numbers.data(), numbers.size() * sizeof(float))};
}

std::pair<double, double> range_of(const TensorData& data) {
  std::pair<double, double> range = {0, 0};
  const auto elements = program::Elements::of(data);
  for (std::size_t i = 0; elements && i < elements->size(); ++i) {
    range.first = std::min(range.first, elements->number(i));
    range.second = std::max(range.second, elements->number(i));
  }
  return range;
}

// Returns the nodes in an order in which each follows those that make its inputs: some tools append nodes.
std::vector<const OnnxNode*> after_their_makers(const onnx_file::OnnxGraph& graph) {
  std::map<std::string_view, std::size_t> makers;
  std::vector<std::size_t> open(graph.nodes.size());  // inputs of each node whose makers do not stand in `ordered` yet
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::string_view output : graph.nodes[i].outputs) makers.emplace(output, i);
  }
  std::vector<std::vector<std::size_t>> readers(graph.nodes.size());
  std::set<std::size_t> ready;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::string_view input : graph.nodes[i].inputs) {
      const auto maker = makers.find(input);
      if (input.empty() || maker == makers.end()) continue;
      readers[maker->second].push_back(i);
      ++open[i];
    }
    if (open[i] == 0) ready.insert(i);
  }
  std::vector<const OnnxNode*> ordered;
  while (!ready.empty()) {
    const std::size_t next = ready.extract(ready.begin()).value();
    ordered.push_back(&graph.nodes[next]);
    for (const std::size_t reader : readers[next]) {
      if (--open[reader] == 0) ready.insert(reader);
    }
  }
  return ordered;
}

// Returns the operator on pictures in ONNX's layout that one on blocks of channels stands for; nullopt for others.
// Values are kept in ONNX's layout, without the channels that fill blocks.
std::optional<OnnxNode> in_plain_layout(const OnnxNode& node) {
  if (node.domain != "com.microsoft.nchwc" || onnx_file::integer_attribute(node, "channels_last", 0) != 0)
    return std::nullopt;
  OnnxNode plain = node;
  plain.domain = {};
  if (node.op_type == "ReorderInput" || node.op_type == "ReorderOutput") plain.op_type = "Identity";
  return plain;
}

std::optional<std::size_t> bias_of(const OnnxNode& node) {
  const auto slot = bias_slot(node.op_type);
  return slot && node.inputs.size() > *slot && !node.inputs[*slot].empty() ? slot : std::nullopt;
}

}  // namespace

TrialRun::TrialRun(TriedFile file) : file_(std::move(file)), tolerance_(tolerance_of(file_.tensors)) {
  std::set<std::int32_t> tables;
  for (std::size_t i = 0; i < file_.nodes.size(); ++i) {
    const OnnxNode& node = *file_.nodes[i];
    numbers_.emplace(&node, i);
    for (const std::int32_t role : roles_of(i)) operators_.emplace(node.op_type, role);
    const auto& operations = file_.placement.placed[i].operations;
    const bool chooses = node.op_type == "Gather" || node.op_type == "GatherBlockQuantized";
    if (!chooses || node.inputs.size() < 2 || operations.size() != 1) continue;
    const TensorNumber table = constant_of(node.inputs[0], file_.tensors);
    const auto* const expression =
        table == no_tensor ? nullptr : &file_.derivations[static_cast<std::size_t>(table)].expression;
    if (expression != nullptr && *expression && is_whole_parameter(**expression))
      tables.insert(file_.wiring.role_of(operations[0]));
  }
  program_ = std::make_unique<TrialProgram>(
      file_.program, file_.weights, file_.wiring, std::move(tables),
      [&](const graph::GraphNode& node, std::int32_t role) { return operators_.contains({node.op_type, role}); });
  if (!program_->is_known()) return;
  const auto& inputs = program_->graph().inputs;
  for (const onnx_file::OnnxValue& input : file_.graph.inputs) {
    const auto place = file_.wires.input_of(input.name);
    const TensorData* const data = place && *place < inputs.size() ? program_->value(inputs[*place]) : nullptr;
    if (data == nullptr) continue;
    keep(input.name, *data);
    computed_.insert(input.name);
  }
  for (const OnnxNode* node : after_their_makers(file_.graph)) {
    if (const auto quantised = quantised_operator(*node))
      run_quantised(*node, *quantised);
    else if (const auto plain = in_plain_layout(*node))
      run(*plain, numbers_.at(node));
    else
      run(*node, numbers_.at(node));
  }
  compare_outputs();
  explain();
}

void TrialRun::keep(std::string_view name, TensorData data) {
  if (name.empty() || data.element_count() > most_tried_elements || !data.bytes.in_memory()) return;
  bytes_ += data.bytes.size();
  if (bytes_ <= most_tried_bytes) values_[name] = in_single(std::move(data));
}

const TensorData* TrialRun::value(std::string_view name) {
  if (const auto found = values_.find(name); found != values_.end()) return found->second ? &*found->second : nullptr;
  const TensorNumber tensor = file_.tensors.find(name);
  if (tensor == no_tensor) return nullptr;
  auto& known = values_[name];
  // Nothing is known of the result of a tensor that has a remark of its own.
  if (file_.derivations[static_cast<std::size_t>(tensor)].verdict == Verdict::unaccounted) return nullptr;
  const std::int64_t count = element_count(file_.tensors[tensor].tensor->dims);
  if (count >= 0 && count <= most_tried_elements) known = in_single(file_.contents.data(file_.tensors[tensor]));
  return known ? &*known : nullptr;
}

void TrialRun::run(const OnnxNode& node, std::size_t number) {
  if (!node.subgraphs.empty() || node.outputs.empty()) return;
  const bool is_live =
      std::ranges::any_of(node.inputs, [&](std::string_view input) { return computed_.contains(input); });
  if (is_live) computed_.insert(node.outputs.begin(), node.outputs.end());
  const ProductKind kind = is_live ? product_kind(node.op_type, node.inputs.size()) : ProductKind::none;
  const bool has_weight =
      kind != ProductKind::none && std::ranges::any_of(node.inputs, [&](std::string_view input) {
        const TensorNumber weight = constant_of(input, file_.tensors);
        return weight != no_tensor && file_.derivations[static_cast<std::size_t>(weight)].expression;
      });
  if (has_weight || reads_computed_weight(node, kind, number)) {
    run_product(node, kind, number);
    const bool sums_integers = node.op_type == "MatMulInteger" || node.op_type == "ConvInteger";
    const TensorData* const sums = sums_integers ? value(node.outputs[0]) : nullptr;
    if (sums != nullptr) keep(node.outputs[0], times(*sums, scale_of_integers));
    return;
  }
  const bool is_unrounded =
      std::ranges::any_of(node.inputs, [&](std::string_view input) { return unrounded_.contains(input); });
  if (!is_live && (node.op_type == "QuantizeLinear" || (is_unrounded && node.op_type != "DequantizeLinear")))
    unrounded_.insert(node.outputs.begin(), node.outputs.end());
  const bool may_keep = is_live || is_unrounded || node.op_type == "QuantizeLinear";
  if ((may_keep && keep_value(node)) || choose_rows(node, number) || take_results(node, number)) return;
  compute(node);
}

void TrialRun::run_quantised(const OnnxNode& node, const QuantisedOperator& quantised) {
  const ProductKind kind = product_kind(quantised.plain);
  OnnxNode plain = node;
  plain.op_type = quantised.plain;
  plain.domain = {};
  plain.inputs.clear();
  for (const std::size_t slot : quantised.operands)
    plain.inputs.push_back(unquantised_operand(node, slot, kind != ProductKind::none));
  const bool has_bias = quantised.bias && *quantised.bias < node.inputs.size() && !node.inputs[*quantised.bias].empty();
  if (has_bias) plain.inputs.push_back(unquantised_bias(node, quantised));
  run(plain, numbers_.at(&node));
  const TensorData* const result = value(node.outputs[0]);
  const auto [least, largest] = result == nullptr ? std::pair(0.0, 0.0) : range_of(*result);
  if (result != nullptr && file_.may_cut(node, least, largest)) values_[node.outputs[0]] = std::nullopt;
}

std::string_view TrialRun::unquantised_operand(const OnnxNode& node, std::size_t slot, bool is_product) {
  const std::string_view operand = node.inputs[slot];
  const bool is_weight = is_product && constant_of(operand, file_.tensors) != no_tensor;
  if (is_weight || computed_.contains(operand) || unrounded_.contains(operand)) return operand;
  return dequantised(value(operand), value(node.inputs[slot + 1]), value(node.inputs[slot + 2]));
}

std::string_view TrialRun::unquantised_bias(const OnnxNode& node, const QuantisedOperator& quantised) {
  graph::GraphNode product;
  product.op_type = "Mul";
  product.outputs = {0};
  const TensorData* const one = value(node.inputs[quantised.operands[0] + 1]);
  const TensorData* const other = value(node.inputs[quantised.operands[1] + 1]);
  const auto scale = one != nullptr && other != nullptr ? results_of(product, {one, other}) : std::nullopt;
  return dequantised(value(node.inputs[*quantised.bias]), scale ? &scale->front() : nullptr, nullptr);
}

std::string_view TrialRun::dequantised(const TensorData* integers, const TensorData* scale, const TensorData* zero) {
  const std::string_view name = names_.emplace_back("dequantised " + std::to_string(names_.size()));
  graph::GraphNode step;
  step.op_type = "DequantizeLinear";
  step.outputs = {0};
  step.attributes = {{"axis", std::int64_t{0}}};
  auto result = integers != nullptr && scale != nullptr ? results_of(step, {integers, scale, zero}) : std::nullopt;
  if (result) keep(name, std::move(result->front()));
  return name;
}

bool TrialRun::keep_value(const OnnxNode& node) {
  std::string_view kept;
  if (node.op_type == "QuantizeLinear" || node.op_type == "DynamicQuantizeLinear") {
    const TensorData* const data = value(node.inputs[0]);
    const auto [least, largest] = data == nullptr ? std::pair(0.0, 0.0) : range_of(*data);
    kept = file_.may_cut(node, least, largest) ? std::string_view() : node.inputs[0];
  } else if (node.op_type == "DequantizeLinear") {
    kept = node.inputs[0];
  } else if (const DType to = conversion_of(node); is_floating(to) && size_of(to) > 1) {
    const TensorData* const data = value(node.inputs[0]);
    if (data != nullptr && !is_floating(data->dtype)) return false;
    kept = node.inputs[0];
  } else if (kept = rescaled_sum(node, file_.tensors); !kept.empty()) {
    const TensorData* const sums = value(kept);
    if (sums != nullptr) keep(node.outputs[0], times(*sums, 1 / scale_of_integers));
    return true;
  } else {
    return false;
  }
  if (const TensorData* const data = kept.empty() ? nullptr : value(kept)) keep(node.outputs[0], *data);
  return true;
}

bool TrialRun::choose_rows(const OnnxNode& node, std::size_t number) {
  const auto& operations = file_.placement.placed[number].operations;
  const bool chooses = node.op_type == "Gather" || node.op_type == "GatherBlockQuantized";
  if (!chooses || operations.size() != 1 || constant_of(node.inputs[0], file_.tensors) == no_tensor) return false;
  const TensorNumber table = constant_of(node.inputs[0], file_.tensors);
  const auto& expression = file_.derivations[static_cast<std::size_t>(table)].expression;
  if (!expression || !is_whole_parameter(*expression)) return false;
  computed_.insert(node.outputs[0]);
  const TensorData* const indices = value(node.inputs[1]);
  std::vector<std::int64_t> row = dims_of(*expression);
  if (indices == nullptr || row.empty() || onnx_file::integer_attribute(node, "axis", 0) != 0) return true;
  row.erase(row.begin());
  if (indices->element_count() * element_count(row) <= most_tried_elements)
    keep(node.outputs[0], made_up_rows(file_.wiring.role_of(operations[0]), *indices, row));
  return true;
}

std::set<std::int32_t> TrialRun::roles_of(std::size_t number) const {
  std::set<std::int32_t> roles;
  for (const std::int32_t operation : file_.placement.placed[number].own_operations())
    roles.insert(file_.wiring.role_of(operation));
  return roles;
}

std::optional<std::set<std::string_view>> TrialRun::other_operands(const OnnxNode& node, const Uncomputed& made) {
  std::set<std::string_view> others;
  for (std::size_t slot = 0; slot < node.inputs.size(); ++slot) {
    const graph::GraphValueId input = made.node->inputs[slot];
    const TensorData* const expected = input == graph::no_value ? nullptr : program_->computed(input);
    const TensorData* const own = node.inputs[slot].empty() ? nullptr : value(node.inputs[slot]);
    if (expected == nullptr || own == nullptr) continue;
    if (own->shape != expected->shape) return std::nullopt;
    if (!are_near(*own, *expected, tolerance_)) others.insert(node.inputs[slot]);
  }
  return others;
}

bool TrialRun::take_results(const OnnxNode& node, std::size_t number) {
  const std::set<std::int32_t> roles = roles_of(number);
  std::vector<const Uncomputed*> all;
  for (const Uncomputed& made : program_->uncomputed()) {
    if (made.node->op_type == node.op_type && roles.contains(made.role)) all.push_back(&made);
  }
  if (all.empty()) return false;
  const std::string equation = equation_of(onnx_file::text_attribute(node, "equation"));
  std::erase_if(all, [&](const Uncomputed* made) {
    return made->node->inputs.size() != node.inputs.size() || equation_of(*made->node) != equation;
  });
  const auto reads_the_same = [&](const Uncomputed* made) {
    const auto others = other_operands(node, *made);
    return others && others->empty();
  };
  const auto found = std::ranges::find_if(all, reads_the_same);
  if (found == all.end() && all.size() != 1) return true;
  const Uncomputed& taken = found == all.end() ? *all[0] : **found;
  const auto others = other_operands(node, taken);
  if (!others) return true;
  for (const std::string_view operand : *others) others_.emplace(operand, false);
  for (std::size_t i = 0; i < taken.results.size() && i < node.outputs.size(); ++i)
    keep(node.outputs[i], taken.results[i]);
  return true;
}

void TrialRun::compute(const OnnxNode& node) {
  const graph::GraphNode read = graph_node_of(node, file_.contents);
  if (node.op_type == "Constant") {
    if (auto integers = stated_integers(read)) keep(node.outputs[0], std::move(*integers));
    return;
  }
  simplify::Constants inputs;
  for (const std::string_view input : node.inputs) {
    inputs.push_back(input.empty() ? nullptr : value(input));
    if (!input.empty() && inputs.back() == nullptr) return;
  }
  // The number between quantised elements is an integer, and these are kept as the numbers that they stand for.
  const bool pads_integers = node.op_type == "Pad" && inputs.size() > 2 && inputs[2] != nullptr &&
                             is_floating(inputs[0]->dtype) && !is_floating(inputs[2]->dtype);
  if (pads_integers) return;
  auto results = results_of(read, inputs);
  for (std::size_t i = 0; results && i < results->size() && i < node.outputs.size(); ++i)
    keep(node.outputs[i], std::move((*results)[i]));
}

std::vector<const TrialProgram::Product*> TrialRun::candidates(const std::vector<std::int32_t>& operations,
                                                               ProductKind kind, std::size_t slot) const {
  std::set<std::int32_t> roles, found;
  for (const std::int32_t operation : operations) roles.insert(file_.wiring.role_of(operation));
  std::vector<const Product*> all;
  for (const Product& product : program_->products()) {
    const std::int32_t role = file_.wiring.role_of(product.operation);
    if (!roles.contains(role)) continue;
    if (product.kind != kind || product.slot != slot) return {};
    found.insert(role);
    all.push_back(&product);
  }
  return found.size() == 1 ? all : std::vector<const Product*>();
}

const TrialProgram::Product* TrialRun::chosen(const std::vector<const Product*>& all, std::string_view operand) {
  if (all.empty()) return nullptr;
  const TensorData* const own = value(operand);
  const bool is_known = own != nullptr && std::ranges::all_of(all, [&](const Product* each) {
                          return each->operand != nullptr && has_same_count(*own, *each->operand);
                        });
  if (own != nullptr) {
    for (const Product* each : all) {
      const bool is_equal = each->operand != nullptr && are_near(*own, *each->operand, tolerance_) &&
                            has_same_layout(*own, *each->operand, each->kind, each->slot);
      if (!is_equal) continue;
      equal_.insert(operand);
      return each;
    }
  }
  if (is_known) others_.emplace(operand, false);
  return all.size() == 1 ? all[0] : nullptr;
}

std::size_t TrialRun::operand_slot(const OnnxNode& node, ProductKind kind) const {
  const bool may_be_first = kind == ProductKind::matrix || kind == ProductKind::sum_of_products;
  return may_be_first && !computed_.contains(node.inputs[0]) ? 1 : 0;
}

bool TrialRun::reads_computed_weight(const OnnxNode& node, ProductKind kind, std::size_t number) {
  if (kind == ProductKind::none || node.inputs.size() < 2) return false;
  const std::size_t slot = operand_slot(node, kind);
  if (slot == 0 && computed_.contains(node.inputs[1])) return false;
  const TensorData* const own = value(node.inputs[1 - slot]);
  const auto all = candidates(file_.placement.placed[number].own_operations(), kind, slot);
  return own != nullptr && !all.empty() && std::ranges::all_of(all, [&](const Product* each) {
           const TensorData* const weight = program_->value(each->node->inputs[1 - slot]);
           return weight != nullptr && weight->shape == own->shape && are_near(*own, *weight, tolerance_);
         });
}

void TrialRun::run_product(const OnnxNode& node, ProductKind kind, std::size_t number) {
  const Placed& place = file_.placement.placed[number];
  const std::size_t slot = operand_slot(node, kind);
  const bool is_turned = onnx_file::integer_attribute(node, "transA", 0) != 0 ||
                         (slot == 1 && onnx_file::integer_attribute(node, "transB", 0) != 0) ||
                         onnx_file::integer_attribute(node, "transBatchA", 0) != 0 ||
                         onnx_file::integer_attribute(node, "transBatchB", 0) != 0 || node.inputs.size() < 2;
  if (is_turned || place.share < 1) return;
  if (file_.placement.packed.contains(&node)) {
    auto sums = packed_sums(node, kind, slot);
    const auto bias = bias_of(node);
    const TensorData* const added = bias ? value(node.inputs[*bias]) : nullptr;
    if (sums && bias && added != nullptr) sums = with_bias(*sums, *added, kind);
    if (sums && (!bias || added != nullptr)) keep(node.outputs[0], std::move(*sums));
    return;
  }
  auto all = candidates(place.own_operations(), kind, slot);
  if (kind == ProductKind::sum_of_products) {
    const std::string equation = equation_of(onnx_file::text_attribute(node, "equation"));
    std::erase_if(all, [&](const Product* each) { return equation_of(*each->node) != equation; });
  }
  const Product* const product = chosen(all, node.inputs[slot]);
  if (product != nullptr) add_result(node, *product, number);
}

std::optional<TensorData> TrialRun::packed_sums(const OnnxNode& node, ProductKind kind, std::size_t slot) {
  graph::GraphNode join;
  join.op_type = "Concat";
  join.outputs = {0};
  join.attributes = {{"axis", std::int64_t{-1}}};
  simplify::Constants parts;
  if (kind != ProductKind::matrix || slot != 0) return std::nullopt;
  for (const std::int32_t operation : file_.placement.packed.at(&node)) {
    const Product* const product = chosen(candidates({operation}, kind, slot), node.inputs[slot]);
    if (product == nullptr || product->results.empty()) return std::nullopt;
    parts.push_back(&product->results[0]);
  }
  auto joined = results_of(join, parts);
  const TensorData* const own = value(node.inputs[slot]);
  if (!joined || own == nullptr || own->shape.empty()) return std::nullopt;
  TensorData sums = std::move(joined->front());
  std::vector<std::int64_t> shape = own->shape;
  shape.back() = sums.shape.back();
  if (element_count(shape) != sums.element_count()) return std::nullopt;
  sums.shape = std::move(shape);
  return sums;
}

// Integers end where a function of the program may cut off numbers.
bool TrialRun::is_quantised(const OnnxNode& node, std::size_t number) const {
  const auto& readers = file_.tensors.readers(node.outputs[0]);
  const auto quantises = [](const OnnxNode* reader) { return reader->op_type == "QuantizeLinear"; };
  return quantised_inputs(*file_.nodes[number]) || (!readers.empty() && std::ranges::all_of(readers, quantises));
}

void TrialRun::add_result(const OnnxNode& node, const Product& product, std::size_t number) {
  if (product.results.empty()) return;
  if (product.kind == ProductKind::recurrent) {
    for (std::size_t i = 0; i < product.results.size() && i < node.outputs.size(); ++i)
      keep(node.outputs[i], product.results[i]);
    return;
  }
  const bool has_activation = !onnx_file::text_attribute(node, "activation").empty();
  bool is_plain = !has_activation;
  for (const std::string_view input : node.inputs) {
    const TensorNumber tensor = constant_of(input, file_.tensors);
    if (tensor == no_tensor) continue;
    const auto& expression = file_.derivations[static_cast<std::size_t>(tensor)].expression;
    if (expression && is_folded(*expression)) is_plain = false;
  }
  if (!is_plain) {
    constexpr std::size_t most_inputs = 3;
    const auto& own = file_.placement.placed[number].own_operations();
    std::set<std::int32_t> operations(own.begin(), own.end());
    if (!has_activation) operations = program_->linear_ones(operations, is_quantised(node, number));
    const TensorData* const result = program_->result_of(product, operations);
    if (result != nullptr && node.inputs.size() <= most_inputs) keep(node.outputs[0], *result);
    return;
  }
  const auto weight = static_cast<std::size_t>(constant_of(node.inputs[1 - product.slot], file_.tensors));
  const bool has_factor = weight < file_.derivations.size() && file_.derivations[weight].expression;
  TensorData sums = times(product.results[0], has_factor ? factor_in(*file_.derivations[weight].expression) : 1);
  const TensorData* const own = value(node.inputs[product.slot]);
  if (product.kind == ProductKind::matrix && product.slot == 0) {
    if (own == nullptr || own->shape.empty() || sums.shape.empty()) return;
    const bool is_vector =
        weight < file_.derivations.size() && file_.tensors[static_cast<TensorNumber>(weight)].tensor->dims.size() == 1;
    std::vector<std::int64_t> shape = own->shape;
    shape.back() = 1;
    const std::int64_t rows = element_count(shape);
    if (rows < 1 || sums.element_count() % rows != 0) return;
    shape.back() = sums.element_count() / rows;
    if (is_vector && shape.back() == 1) shape.pop_back();
    sums.shape = std::move(shape);
  }
  const auto bias = bias_of(node);
  const TensorData* const added = bias ? value(node.inputs[*bias]) : nullptr;
  if (bias && added == nullptr) return;
  sums = times(std::move(sums), onnx_file::number_attribute(node, "alpha").value_or(1));
  const double beta = onnx_file::number_attribute(node, "beta").value_or(1);
  auto result = bias ? with_bias(sums, times(*added, beta), product.kind) : std::optional(std::move(sums));
  constexpr std::size_t summand_slot = 3;
  const bool may_add = node.op_type == "Conv" || node.op_type == "FusedConv";
  const bool has_summand = may_add && node.inputs.size() > summand_slot;
  const TensorData* const summand = has_summand ? value(node.inputs[summand_slot]) : nullptr;
  if (has_summand && summand == nullptr) return;
  if (result && has_summand) result = with_bias(*result, *summand, ProductKind::matrix);
  if (result) keep(node.outputs[0], std::move(*result));
}

void TrialRun::compare_outputs() {
  const auto& outputs = file_.graph.outputs;
  const auto& expected = program_->graph().outputs;
  const bool has_caches = expected.size() != outputs.size();
  std::size_t result = 0;
  for (const onnx_file::OnnxValue& output : outputs) {
    const auto& caches = file_.written.caches;
    if (has_caches && std::ranges::find(caches, output.name, &CachePair::present) != caches.end()) continue;
    if (result >= expected.size()) return;
    const TensorData* const theirs = program_->value(expected[result++]);
    const TensorData* const own = value(output.name);
    if (own == nullptr || theirs == nullptr || !has_same_count(*own, *theirs)) continue;
    if (are_near(*own, *theirs, tolerance_))
      equal_.insert(output.name);
    else
      others_[output.name] = true;
  }
}

bool TrialRun::is_confirmed(std::string_view name, int depth) const {
  constexpr int longest = 24;  // nodes up to the next product
  if (others_.contains(name)) return false;
  if (equal_.contains(name)) return true;
  const auto& readers = file_.tensors.readers(name);
  const auto& outputs = file_.graph.outputs;
  const bool is_output = std::ranges::find(outputs, name, &onnx_file::OnnxValue::name) != outputs.end();
  if (is_output || readers.empty() || depth > longest) return false;
  return std::ranges::all_of(readers, [&](const OnnxNode* reader) {
    return std::ranges::all_of(reader->outputs, [&](std::string_view output) {
      const auto found = values_.find(output);
      return output.empty() || (found != values_.end() && found->second && is_confirmed(output, depth + 1));
    });
  });
}

bool TrialRun::confirms_axis(std::size_t number) const {
  const OnnxNode& node = *file_.nodes[number];
  const auto axis = onnx_file::integer_attribute(node, "axis", -1);
  if (node.outputs.empty() || node.inputs.empty()) return false;
  // The result of a Concat is longer than its operands.
  const auto found = values_.find(node.op_type == "Concat" ? node.outputs[0] : node.inputs[0]);
  if (found == values_.end() || !found->second) return false;
  const auto& shape = found->second->shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const std::int64_t place = axis < 0 ? axis + rank : axis;
  return place >= 0 && place < rank && shape[static_cast<std::size_t>(place)] > 1 &&
         std::ranges::all_of(node.outputs, [&](std::string_view output) {
           const auto result = values_.find(output);
           return result != values_.end() && result->second && is_confirmed(output, 0);
         });
}

void TrialRun::explain() {
  if (others_.empty()) return;
  // Numbers of the program by count.
  std::map<std::int64_t, std::vector<const TensorData*>> expected;
  for (std::size_t id = 0; id < program_->graph().values.size(); ++id) {
    const TensorData* const data = program_->computed(static_cast<graph::GraphValueId>(id));
    if (data != nullptr) expected[data->element_count()].push_back(data);
  }
  const auto agrees = [&](std::string_view name) {
    const TensorData* const own = value(name);
    return own == nullptr || std::ranges::any_of(expected[own->element_count()], [&](const TensorData* each) {
             return are_near(*own, *each, tolerance_);
           });
  };
  for (const auto& [name, is_output] : others_) {
    differences_.push_back(explained(name, agrees));
    if (is_output)
      differences_.back().output =
          "the output '" + printable(name) + "' has other numbers than the program computes from the same ones";
  }
}

TrialRun::Difference TrialRun::explained(std::string_view name,
                                         const std::function<bool(std::string_view)>& agrees) const {
  Difference difference{.remark = "computes numbers that the program does not compute from the same ones"};
  // Follows the values that no step of the program has, back to the nodes that read such as it has.
  std::vector<std::string_view> open = {name};
  while (!open.empty()) {
    const OnnxNode* const maker = file_.tensors.producer(open.back());
    open.pop_back();
    if (maker == nullptr || !difference.between.insert(numbers_.at(maker)).second) continue;
    bool is_first = true;
    for (const std::string_view input : maker->inputs) {
      if (!computed_.contains(input) || agrees(input)) continue;
      is_first = false;
      open.push_back(input);
    }
    if (is_first) difference.nodes.insert(numbers_.at(maker));
  }
  if (!difference.nodes.empty()) return difference;
  // An input of the file, read by a product in place of what the program reads.
  difference.remark = "reads other numbers than in the program";
  for (const OnnxNode* reader : file_.tensors.readers(name)) {
    const auto quantised = quantised_operator(*reader);
    const std::string_view op_type = quantised ? quantised->plain : reader->op_type;
    if (product_kind(op_type) != ProductKind::none) difference.nodes.insert(numbers_.at(reader));
  }
  return difference;
}

}  // namespace whence::comparison
