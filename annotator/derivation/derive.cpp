#include "annotator/derivation/derive.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "annotator/derivation/angle_tables.h"
#include "annotator/derivation/deriver.h"
#include "annotator/derivation/element_views.h"
#include "annotator/derivation/equal_parameters.h"
#include "annotator/derivation/structure_inputs.h"
#include "annotator/program/tensor_values.h"

namespace whence::derivation {

std::string_view name_of(Verdict verdict) {
  static constexpr std::array<std::string_view, 5> names = {"exact", "bounded", "constant", "calibrated",
                                                            "unaccounted"};
  return names[static_cast<std::size_t>(verdict)];
}

namespace {

constexpr std::uint64_t released_size = 8 << 20;  // bytes of a tensor after which pages of the checkpoint are dropped
constexpr std::int64_t max_structure = 64;        // integers of a tensor of sizes, axes or positions

// Returns true for integers with equal steps, such as the positions of a part.
bool is_progression(const TensorData& data) {
  const auto elements = program::Elements::of(data);
  if (!elements || elements->size() < 2) return false;
  const std::int64_t step = elements->integer(1) - elements->integer(0);
  for (std::size_t i = 2; i < elements->size(); ++i) {
    if (elements->integer(i) - elements->integer(i - 1) != step) return false;
  }
  return true;
}

}  // namespace

std::vector<Derivation> Deriver::run() {
  find_unchanged();
  note_neighbours();
  choose_again();
  for (const QuantisedWeight& weight : tensors_.quantised()) {
    find_quantised(weight);
    if (found(weight.integers).bytes > released_size) weights_.release();
  }
  for (std::size_t i = 0; i < found_.size(); ++i) find_rounded(static_cast<TensorNumber>(i));
  for (const Product& product : tensors_.products()) find_folded(product);
  for (std::size_t i = 0; i < found_.size(); ++i) find_blocked(static_cast<TensorNumber>(i));
  for (std::size_t i = 0; i < found_.size(); ++i) find_blocked_bias(static_cast<TensorNumber>(i));
  find_remaining_biases();
  for (std::size_t i = 0; i < found_.size(); ++i) find_computed(static_cast<TensorNumber>(i));
  for (const RunTimeWeight& weight : tensors_.run_time_weights()) find_run_time_scales(weight);
  for (const QuantisedBias& bias : tensors_.biases()) find_quantised_bias(bias);
  for (const TensorNumber range : tensors_.calibrated()) {
    if (!known(range) && !is_scale_of_weight(range)) note_range(range);
  }
  for (std::size_t i = 0; i < found_.size(); ++i) require_order(static_cast<TensorNumber>(i));
  find_constants();
  for (const QuantisedBias& bias : tensors_.biases()) find_bias_scale(bias);
  choose_scale_rules();
  choose_arithmetics();
  choose_roundings();
  choose_ranges();
  list_equals();
  drop_certain_equals();
  give_reasons();
  return std::move(found_);
}

void Deriver::find_content(TensorNumber number) {
  const FileTensor& tensor = tensors_[number];
  const DType dtype = from_onnx(tensor.tensor->data_type);
  if (dtype == DType::undefined || !program::has_number_form(dtype)) return;
  const std::string_view bytes = contents_.of(tensor);
  auto expression = index(dtype).find({dtype, tensor.tensor->dims, bytes}, fit_of(number));
  if (!expression) return;
  prove(number, std::move(*expression));
}

bool Deriver::prove(TensorNumber number, Expression expression) {
  if (!gives(expression, number)) return false;
  found(number) = {Verdict::exact, std::move(expression), {}, found(number).bytes};
  return true;
}

void Deriver::find_unchanged() {
  for (std::size_t i = 0; i < found_.size(); ++i) {
    const auto number = static_cast<TensorNumber>(i);
    found(number).bytes = contents_.of(tensors_[number]).size();
    find_content(number);
  }
}

void Deriver::note_neighbours() {
  std::map<const onnx_file::OnnxNode*, std::vector<TensorNumber>> read;
  for (std::size_t i = 0; i < found_.size(); ++i) {
    for (const Use& use : tensors_.all()[i].uses) read[use.node].push_back(static_cast<TensorNumber>(i));
  }
  for (const auto& [node, together] : read) {
    for (const TensorNumber from : together) {
      if (!found(from).expression) continue;
      for_each_parameter(*found(from).expression, [&](const ParameterStep& step) {
        if (!step.is_certain) return;
        for (const TensorNumber to : together) {
          if (to == from) continue;
          for_each_name(step, [&](const std::string& name) {
            names_[static_cast<std::size_t>(to)].add_module(module_of_parameter(name));
          });
        }
      });
    }
  }
}

void Deriver::choose_again() {
  for (std::size_t i = 0; i < found_.size(); ++i) {
    const auto number = static_cast<TensorNumber>(i);
    bool is_certain = found(number).expression.has_value();
    if (is_certain)
      for_each_parameter(*found(number).expression,
                         [&](const ParameterStep& step) { is_certain = is_certain && step.is_certain; });
    if (!is_certain) find_content(number);
  }
}

void Deriver::set_exact(TensorNumber tensor, Expression expression) {
  if (tensor != no_tensor) found(tensor) = {Verdict::exact, std::move(expression), {}, found(tensor).bytes};
}

void Deriver::require_order(TensorNumber number) {
  if (!found(number).expression) return;
  if (begins_with_reverse(*found(number).expression)) {
    found(number) = {Verdict::unaccounted,
                     {},
                     "directions in another order: " + to_text(*found(number).expression),
                     found(number).bytes};
    return;
  }
  if (is_ordered(*found(number).expression)) return;
  const auto readers = tensors_.readers_of(tensors_[number]);
  const bool reorders = std::ranges::any_of(readers, [](std::string_view op_type) {
    return op_type == "LSTM" || op_type == "GRU" || op_type == "RNN" || op_type == "DynamicQuantizeLSTM" ||
           op_type.ends_with("Attention") || op_type == "RotaryEmbedding";
  });
  if (reorders) return;
  found(number) = {Verdict::unaccounted,
                   {},
                   "elements in another order: " + to_text(*found(number).expression),
                   found(number).bytes};
}

bool Deriver::begins_with_reverse(const Expression& expression) {
  static constexpr std::string_view ending = "_reverse";
  std::set<std::string, std::less<>> before;
  bool is_exchanged = false;
  for_each_parameter(expression, [&](const ParameterStep& step) {
    is_exchanged = is_exchanged || before.contains(step.name + std::string(ending));
    before.insert(step.name);
  });
  return is_exchanged;
}

void Deriver::note_range(TensorNumber range) {
  const TensorData data = contents_.data(tensors_[range]);
  const auto elements = program::Elements::of(data);
  const bool is_scale = elements && is_floating(data.dtype);
  // The range of a mask with infinite numbers is infinite.
  if (is_scale && !(elements->number(0) > 0)) {
    found(range).remark = "no measurement gives this scale";
  } else {
    found(range).verdict = Verdict::calibrated;
  }
}

bool Deriver::is_zero_scale(const FileTensor& tensor, const TensorData& data) {
  static const std::map<std::string_view, std::size_t> scales = {
      {"BatchNormalization", 1},     {"GroupNormalization", 1},
      {"InstanceNormalization", 1},  {"LayerNormalization", 1},
      {"RMSNormalization", 1},       {"SimplifiedLayerNormalization", 1},
      {"SkipLayerNormalization", 2}, {"SkipSimplifiedLayerNormalization", 2}};
  const bool is_scale = std::ranges::any_of(tensors_.final_uses(tensor), [&](const Use& use) {
    const auto row = scales.find(use.node->op_type);
    return row != scales.end() && row->second == use.slot;
  });
  const auto elements = is_scale ? program::Elements::of(data) : std::nullopt;
  for (std::size_t i = 0; elements && i < elements->size(); ++i) {
    if (elements->number(i) != 0) return false;
  }
  return elements.has_value();
}

void Deriver::find_constants() {
  // The bias of a product with a folded norm is computed from the norm: no constant of the program stands there.
  std::set<TensorNumber> folded_bias;
  for (const Product& product : tensors_.products()) {
    const auto& weight = product.weight == no_tensor ? std::nullopt : found(product.weight).expression;
    const bool is_folded = weight && (!norms_.folded_weight(*weight).empty() || FoldedVectors::is_scaled(*weight));
    if (is_folded) folded_bias.insert(product.bias);
  }
  for (const QuantisedBias& bias : tensors_.biases()) {
    const auto& scale = bias.weight_scale == no_tensor ? std::nullopt : found(bias.weight_scale).expression;
    if (scale && !norms_.folded_weight(*scale).empty()) folded_bias.insert(bias.integers);
  }
  for (std::size_t i = 0; i < found_.size(); ++i) {
    const auto number = static_cast<TensorNumber>(i);
    if (known(number) || !found(number).remark.empty() || folded_bias.contains(number)) continue;
    const TensorData data = contents_.data(tensors_[number]);
    const bool is_integer = is_integral(data.dtype) || data.dtype == DType::boolean;
    const bool is_short = is_integer && (data.element_count() <= max_structure || is_progression(data));
    if (is_zero_scale(tensors_[number], data)) continue;
    const bool is_known =
        constants_ != nullptr && (constants_->holds(data) || is_angle_table(tensors_, number, data, *constants_));
    if ((is_short && is_structure(tensors_[number])) || is_known) found(number).verdict = Verdict::constant;
  }
}

void Deriver::give_reasons() {
  const std::string reason = constants_ == nullptr
                                 ? "follows from no parameter by known steps"
                                 : "follows from no parameter by known steps, and is no constant of the program";
  for (Derivation& each : found_) {
    if (each.verdict == Verdict::unaccounted && each.remark.empty()) each.remark = reason;
  }
}

void Deriver::list_equals() {
  const auto list = [&](const auto& self, Expression& expression, const NameFit& fit) -> void {
    if (auto* step = std::get_if<ParameterStep>(&expression.step); step != nullptr && step->same_bytes.empty())
      derivation::list_equals(*step, weights_, fit);
    for (Expression& input : expression.inputs) self(self, input, fit);
  };
  for (std::size_t i = 0; i < found_.size(); ++i) {
    if (found_[i].expression) list(list, *found_[i].expression, fit_of(static_cast<TensorNumber>(i)));
  }
}

void Deriver::drop_certain_equals() {
  std::set<std::string, std::less<>> held;
  for (const Derivation& each : found_) {
    if (each.expression)
      for_each_parameter(*each.expression, [&](const ParameterStep& step) {
        if (step.is_certain) held.insert(step.name);
      });
  }
  const auto drop = [&](const auto& self, Expression& expression) -> void {
    if (auto* step = std::get_if<ParameterStep>(&expression.step); step != nullptr && step->is_certain) {
      std::erase_if(step->equals, [&](const std::string& name) { return held.contains(name); });
    }
    for (Expression& input : expression.inputs) self(self, input);
  };
  for (Derivation& each : found_) {
    if (each.expression) drop(drop, *each.expression);
  }
}

std::vector<Derivation> derive(const FileTensors& tensors, Contents& contents, const Weights& weights,
                               const ProgramConstants* constants, const ProgramFacts& facts) {
  return Deriver(tensors, contents, weights, constants, facts).run();
}

}  // namespace whence::derivation
