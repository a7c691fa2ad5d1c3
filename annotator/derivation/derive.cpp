#include "annotator/derivation/derive.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "annotator/derivation/blocked_layouts.h"
#include "annotator/derivation/content_index.h"
#include "annotator/derivation/dequantise.h"
#include "annotator/derivation/element_views.h"
#include "annotator/derivation/evaluate.h"
#include "annotator/derivation/find_scheme.h"
#include "annotator/derivation/folded_norms.h"
#include "annotator/derivation/folded_vectors.h"
#include "annotator/derivation/likeness.h"
#include "annotator/derivation/name_fit.h"
#include "annotator/derivation/structure_inputs.h"
#include "annotator/program/tensor_values.h"
#include "schema/element_count.h"
#include "schema/printable.h"

namespace whence::derivation {

std::string_view name_of(Verdict verdict) {
  static constexpr std::array<std::string_view, 5> names = {"exact", "bounded", "constant", "calibrated",
                                                            "unaccounted"};
  return names[static_cast<std::size_t>(verdict)];
}

namespace {

std::string number_text(float number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

constexpr std::uint64_t released_size = 8 << 20;  // bytes of a tensor after which pages of the checkpoint are dropped
constexpr std::int64_t max_structure = 64;        // integers of a tensor of sizes, axes or positions

class Deriver {
 public:
  Deriver(const FileTensors& tensors, Contents& contents, const Weights& weights, const ProgramConstants* constants)
      : tensors_(tensors),
        contents_(contents),
        weights_(weights),
        constants_(constants),
        likeness_(weights),
        norms_(weights),
        vectors_(weights),
        found_(tensors.all().size()) {
    for (const FileTensor& tensor : tensors.all()) names_.emplace_back(tensor);
  }

  std::vector<Derivation> run() {
    find_unchanged();
    note_neighbours();
    choose_again();
    for (const QuantisedWeight& weight : tensors_.quantised()) {
      find_quantised(weight);
      if (found(weight.integers).bytes > released_size) weights_.release();
    }
    for (const Product& product : tensors_.products()) find_folded(product);
    for (std::size_t i = 0; i < found_.size(); ++i) find_blocked(static_cast<TensorNumber>(i));
    for (std::size_t i = 0; i < found_.size(); ++i) find_blocked_bias(static_cast<TensorNumber>(i));
    find_remaining_biases();
    for (std::size_t i = 0; i < found_.size(); ++i) find_rounded(static_cast<TensorNumber>(i));
    for (std::size_t i = 0; i < found_.size(); ++i) find_computed(static_cast<TensorNumber>(i));
    for (const QuantisedBias& bias : tensors_.biases()) find_quantised_bias(bias);
    for (const TensorNumber range : tensors_.calibrated()) {
      if (!known(range)) note_range(range);
    }
    for (std::size_t i = 0; i < found_.size(); ++i) require_order(static_cast<TensorNumber>(i));
    find_constants();
    choose_scale_rules();
    drop_certain_equals();
    return std::move(found_);
  }

 private:
  Derivation& found(TensorNumber tensor) { return found_[static_cast<std::size_t>(tensor)]; }
  bool known(TensorNumber tensor) { return tensor == no_tensor || found(tensor).verdict != Verdict::unaccounted; }
  NameFit fit_of(TensorNumber tensor) const {
    const TensorNames& names = names_[static_cast<std::size_t>(tensor)];
    return [&names](std::string_view parameter) { return names.fit(parameter); };
  }
  Sources sources() const {
    return {weights_, [this](const std::string& name) {
              const TensorNumber tensor = tensors_.find(name);
              return contents_.data(tensors_[tensor]);
            }};
  }

  const ContentIndex& index(DType dtype) {
    auto& index = indexes_[dtype];
    if (!index) index = std::make_unique<ContentIndex>(weights_, dtype);
    return *index;
  }

  void find_content(TensorNumber number) {
    const FileTensor& tensor = tensors_[number];
    const DType dtype = from_onnx(tensor.tensor->data_type);
    if (dtype == DType::undefined || !program::has_number_form(dtype)) return;
    const std::string_view bytes = contents_.of(tensor);
    auto expression = index(dtype).find({dtype, tensor.tensor->dims, bytes}, fit_of(number));
    if (!expression) return;
    prove(number, std::move(*expression));
  }

  // Evaluates the expression and stores it if it gives the tensor's bytes.
  bool prove(TensorNumber number, Expression expression) {
    const TensorData result = evaluate(expression, sources());
    if (text_of(result) != contents_.of(tensors_[number])) return false;
    found(number) = {Verdict::exact, std::move(expression), {}, found(number).bytes};
    return true;
  }

  void find_unchanged() {
    for (std::size_t i = 0; i < found_.size(); ++i) {
      const auto number = static_cast<TensorNumber>(i);
      found(number).bytes = contents_.of(tensors_[number]).size();
      find_content(number);
    }
  }

  // Tensors that the same node reads belong to the same module, mostly.
  void note_neighbours() {
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

  void choose_again() {
    for (std::size_t i = 0; i < found_.size(); ++i) {
      const auto number = static_cast<TensorNumber>(i);
      bool is_certain = found(number).expression.has_value();
      if (is_certain)
        for_each_parameter(*found(number).expression,
                           [&](const ParameterStep& step) { is_certain = is_certain && step.is_certain; });
      if (!is_certain) find_content(number);
    }
  }

  StoredParts stored_parts(const QuantisedWeight& weight) {
    integers_ = contents_.of(tensors_[weight.integers]);
    scales_ = weight.scales == no_tensor ? "" : contents_.of(tensors_[weight.scales]);
    zeros_ = weight.zeros == no_tensor ? "" : contents_.of(tensors_[weight.zeros]);
    const bool half =
        weight.scales != no_tensor && from_onnx(tensors_[weight.scales].tensor->data_type) == DType::float16;
    return {integers_, scales_, zeros_, weight.zeros != no_tensor, half};
  }

  void find_quantised(const QuantisedWeight& weight) {
    if (known(weight.integers) || weight.scales == no_tensor) return;
    const StoredParts stored = stored_parts(weight);
    const auto numbers = dequantised(tensors_, contents_, weight);
    if (!numbers) return;
    const auto source = likeness_.find(*numbers, fit_of(weight.integers));
    std::vector<Expression> candidates = computed_sources(weight.dims);
    if (source) std::ranges::move(quantised_sources(weight, *source, *numbers), std::back_inserter(candidates));
    if (candidates.empty()) return find_quantised_constant(weight, stored);
    // Scales alone may be those of several candidates, for example before and after a rounding to float16.
    std::optional<std::pair<Expression, Scheme>> scales_fit;
    for (Expression& candidate : candidates) {
      const TensorData real = evaluate(candidate, sources());
      const SchemeFinding finding = find_scheme({floats_of(real), real.shape}, weight, stored);
      if (finding.exact_integers) return set_quantised(weight, candidate, finding.scheme, true);
      if (finding.exact_scales && !scales_fit) scales_fit.emplace(candidate, finding.scheme);
    }
    if (find_near_quantised(weight, candidates, stored)) return;
    if (scales_fit) {
      set_quantised(weight, scales_fit->first, scales_fit->second, false);
      found(weight.integers).remark = "not the nearest integers for " + to_text(scales_fit->first);
      return note_distance(weight, *numbers, scales_fit->first);
    }
    if (!source) return find_quantised_constant(weight, stored);
    found(weight.integers).remark = "similar to " + to_text(*source) + ", but by no known scheme";
    note_distance(weight, *numbers, *source);
  }

  // Finds a computed weight that the tool rounded otherwise before it was quantised.
  bool find_near_quantised(const QuantisedWeight& weight, const std::vector<Expression>& candidates,
                           const StoredParts& stored) {
    const auto theirs = stored_groups(tensors_, contents_, weight);
    if (!theirs) return false;
    for (const Expression& candidate : candidates) {
      if (!is_computed(candidate)) continue;
      const TensorData real = evaluate(candidate, sources());
      const auto scheme = find_near_scheme({floats_of(real), real.shape}, weight, stored, *theirs);
      if (!scheme) continue;
      set_quantised(weight, candidate, *scheme, true);
      for (const TensorNumber part : {weight.integers, weight.scales}) {
        found(part).verdict = Verdict::bounded;
        found(part).remark = "its numbers before they were quantised are known up to rounding";
      }
      return true;
    }
    return false;
  }

  void set_quantised(const QuantisedWeight& weight, const Expression& source, const Scheme& scheme,
                     bool with_integers) {
    const auto part = [&](QuantiseStep::Part which) { return Expression{QuantiseStep{scheme, which}, {source}}; };
    set_exact(weight.scales, part(QuantiseStep::Part::scales));
    set_exact(weight.zeros, part(QuantiseStep::Part::zero_points));
    if (with_integers) set_exact(weight.integers, part(QuantiseStep::Part::integers));
  }

  // Describes integers that no scheme gives, such as those of GPTQ: how far they are from the weight, in steps.
  void note_distance(const QuantisedWeight& weight, const SampledTensor& numbers, const Expression& source) {
    const auto groups = stored_groups(tensors_, contents_, weight);
    const TensorData real = evaluate(source, sources());
    const auto ours = floats_of(real);
    if (!groups || static_cast<std::int64_t>(ours.size()) != element_count(weight.dims)) return;
    const GroupShape shape(weight.groups, weight.dims);
    double largest = 0;
    std::int64_t others = 0;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(ours.size()); ++i) {
      const std::int64_t inner = i % shape.inner, at = i / shape.inner % shape.length,
                         outer = i / shape.inner / shape.length;
      const double step = std::abs(groups->scales[static_cast<std::size_t>(shape.group(outer, at, inner))]);
      const double distance = std::abs(numbers.number(i) - ours[static_cast<std::size_t>(i)]) / step;
      constexpr double nearest = 0.5 + 1e-3;
      others += distance > nearest ? 1 : 0;
      largest = std::max(largest, distance);
    }
    const std::string counts =
        std::to_string(others) + " of " + std::to_string(ours.size()) + " integers are not the nearest ones";
    if (others == 0) {
      found(weight.integers).remark =
          "the nearest integers for " + to_text(source) + ", with scales of no known scheme";
    } else if (largest <= 1 + 1e-3) {
      found(weight.integers).remark = "within one step of " + to_text(source) + ": " + counts;
    } else if (largest <= 2) {
      found(weight.integers).remark = "within two steps of " + to_text(source) + ": " + counts;
    }
  }

  // Finds a constant of the program that the tool quantised.
  void find_quantised_constant(const QuantisedWeight& weight, const StoredParts& stored) {
    if (constants_ == nullptr) return;
    const std::int64_t count = element_count(weight.dims);
    std::vector<TensorData> candidates = constants_->of_size(count);
    std::ranges::move(constants_->masks_of_size(count), std::back_inserter(candidates));
    if (count == 1) std::ranges::move(constants_->numbers(), std::back_inserter(candidates));
    for (const TensorData& constant : candidates) {
      const auto real = program::cast_tensor(constant, DType::float32);
      if (!real || !is_floating(constant.dtype)) continue;
      const SchemeFinding finding = find_scheme({floats_of(*real), weight.dims}, weight, stored);
      if (!finding.exact_integers) continue;
      for (const TensorNumber part : {weight.integers, weight.scales, weight.zeros}) {
        if (part != no_tensor) found(part).verdict = Verdict::constant;
      }
      return;
    }
  }

  // The source itself, and with each norm that may have been folded into it.
  std::vector<Expression> quantised_sources(const QuantisedWeight& weight, const Expression& source,
                                            const SampledTensor& numbers) {
    std::vector<Expression> sources_to_try = {source};
    const auto product = std::ranges::find(tensors_.products(), weight.integers, &Product::weight);
    const std::int64_t axis = product == tensors_.products().end() ? 0 : product->axis;
    const TensorData real = evaluate(source, sources());
    for (Expression& folded : folded_candidates(source, real, numbers, axis))
      sources_to_try.push_back(std::move(folded));
    // The weights were float16 before.
    for (std::size_t i = 0, count = sources_to_try.size(); i < count; ++i) {
      for (const CastRange& range : cast_ranges) {
        const Expression half{CastStep{DType::float16, range}, {sources_to_try[i]}};
        sources_to_try.push_back({CastStep{DType::float32}, {half}});
      }
    }
    return sources_to_try;
  }

  void set_exact(TensorNumber tensor, Expression expression) {
    if (tensor != no_tensor) found(tensor) = {Verdict::exact, std::move(expression), {}, found(tensor).bytes};
  }

  // The weight with a norm, or with numbers by channel.
  std::vector<Expression> folded_candidates(const Expression& source, const TensorData& real,
                                            const SampledTensor& tensor, std::int64_t axis) const {
    std::vector<Expression> candidates = norms_.candidates(source, real, tensor, axis);
    std::ranges::move(vectors_.candidates(source, real, tensor, axis), std::back_inserter(candidates));
    return candidates;
  }

  std::vector<Expression> folded_biases(const Expression& weight) const {
    return FoldedVectors::is_scaled(weight) ? vectors_.bias_candidates(weight) : norms_.bias_candidates(weight);
  }

  void find_folded(const Product& product) {
    if (known(product.weight)) return find_folded_bias(product);
    const TensorData weight = contents_.data(tensors_[product.weight]);
    const auto elements = program::Elements::of(weight);
    if (!elements || !is_floating(weight.dtype) || weight.shape.size() < 2) return;
    const SampledTensor sampled{weight.shape,
                                [&](std::int64_t i) { return elements->number(static_cast<std::size_t>(i)); }};
    const auto source = likeness_.find(sampled, fit_of(product.weight));
    if (!source) return;
    choose(product.weight, folded_candidates(*source, evaluate(*source, sources()), sampled, product.axis));
    find_folded_bias(product);
  }

  void find_folded_bias(const Product& product) {
    if (product.bias == no_tensor || known(product.bias) || !found(product.weight).expression) return;
    choose(product.bias, folded_biases(*found(product.weight).expression));
  }

  // Finds a weight in one of the layouts of blocked convolutions.
  void find_blocked(TensorNumber number) {
    for (const BlockedLayout& layout : blocked_layouts(tensors_[number])) {
      if (known(number)) return;
      const TensorData filled = evaluate(layout.plain({KeptStep{std::string(tensors_[number].name)}}), sources());
      const TensorData plain = resized(filled, without_padding(filled));
      const auto elements = program::Elements::of(plain);
      if (!elements) return;
      const auto blocked = [&](Expression weight) {
        return layout.blocked(plain.shape == filled.shape ? std::move(weight)
                                                          : padded(std::move(weight), filled.shape));
      };
      if (auto whole = index(plain.dtype).find({plain.dtype, plain.shape, text_of(plain)}, fit_of(number))) {
        if (prove(number, blocked(std::move(*whole)))) return;
      }
      const SampledTensor sampled{plain.shape,
                                  [&](std::int64_t i) { return elements->number(static_cast<std::size_t>(i)); }};
      const auto source = likeness_.find(sampled, fit_of(number));
      if (!source) continue;
      std::vector<Expression> candidates = folded_candidates(*source, evaluate(*source, sources()), sampled, 0);
      for (Expression& candidate : candidates) candidate = blocked(std::move(candidate));
      choose(number, candidates);
    }
  }

  static Expression padded(Expression input, std::vector<std::int64_t> dims) {
    return {PadStep{std::move(dims)}, {std::move(input)}};
  }

  // Finds a bias with zeros for the channels that fill up a block.
  void find_blocked_bias(TensorNumber number) {
    const FileTensor& tensor = tensors_[number];
    const auto& dims = tensor.tensor->dims;
    if (known(number) || dims.size() != 1 || !reads_in_blocks(tensor, 2)) return;
    for (const Use& use : tensor.uses) {
      const TensorNumber weight = use.node->inputs.size() > 1 ? tensors_.find(use.node->inputs[1]) : no_tensor;
      if (weight == no_tensor || !found(weight).expression) continue;
      std::vector<Expression> candidates = folded_biases(*found(weight).expression);
      for (Expression& candidate : candidates) candidate = padded(std::move(candidate), dims);
      if (!known(number)) choose(number, candidates);
    }
  }

  // Finds the biases that are added by a node of their own, with the norms that were folded into weights.
  void find_remaining_biases() {
    std::vector<Expression> weights;
    for (const Derivation& each : found_) {
      const bool is_folded = each.expression && (!norms_.folded_weight(*each.expression).empty() ||
                                                 FoldedVectors::is_scaled(*each.expression));
      if (is_folded) weights.push_back(*each.expression);
    }
    for (std::size_t i = 0; i < found_.size(); ++i) {
      const auto number = static_cast<TensorNumber>(i);
      const onnx_file::OnnxTensor& tensor = *tensors_[number].tensor;
      if (known(number) || !is_floating(from_onnx(tensor.data_type)) || tensor.dims.empty()) continue;
      for (const Expression& weight : weights) {
        if (!known(number)) choose(number, folded_biases(weight));
      }
    }
  }

  // Chooses the expression that gives the tensor's bytes, or else the first one that differs only by the rounding of
  // single precision.
  void choose(TensorNumber number, const std::vector<Expression>& candidates) {
    const TensorData tensor = contents_.data(tensors_[number]);
    if (tensor.dtype == DType::float16) {
      for (const Expression& candidate : candidates) {
        for (const CastRange& range : cast_ranges) {
          if (prove(number, {CastStep{DType::float16, range}, {candidate}})) return;
        }
      }
      return;
    }
    if (tensor.dtype != DType::float32) return;
    for (const Expression& candidate : candidates) {
      const TensorData result = evaluate(candidate, sources());
      if (text_of(tensor) == text_of(result)) return set_exact(number, candidate);
      const auto difference = is_computed(candidate) ? rounding_difference(tensor, result) : std::nullopt;
      if (difference && !known(number)) {
        found(number) = {Verdict::bounded, candidate, "differs by at most " + number_text(*difference),
                         found(number).bytes};
      }
    }
  }

  // Returns true if arithmetic gives the value, whose rounding tools choose.
  static bool is_computed(const Expression& expression) {
    if (std::holds_alternative<FoldStep>(expression.step) || std::holds_alternative<ByChannelStep>(expression.step))
      return true;
    const auto* const parameter = std::get_if<ParameterStep>(&expression.step);
    return (parameter != nullptr && parameter->is_computed()) || std::ranges::any_of(expression.inputs, is_computed);
  }

  // Returns the largest difference of two tensors if it may come from rounding.
  static std::optional<float> rounding_difference(const TensorData& tensor, const TensorData& result) {
    if (tensor.bytes.size() != result.bytes.size()) return {};
    const auto theirs = floats_of(tensor), ours = floats_of(result);
    float largest = 0, difference = 0;
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      largest = std::max(largest, std::abs(ours[i]));
      difference = std::max(difference, std::abs(ours[i] - theirs[i]));
    }
    constexpr float bound = 4 * 1.1920929e-7F;  // four units in the last place of the largest element
    return difference <= largest * bound ? std::optional(difference) : std::nullopt;
  }

  // Finds tensors that were rounded in a way of their own: to float16 within a range.
  void find_rounded(TensorNumber number) {
    if (known(number)) return;
    const FileTensor& tensor = tensors_[number];
    if (from_onnx(tensor.tensor->data_type) != DType::float16 || element_count(tensor.tensor->dims) < 2) return;
    const TensorData data = contents_.data(tensor);
    const auto elements = program::Elements::of(data);
    if (!elements) return;
    const SampledTensor sampled{data.shape,
                                [&](std::int64_t i) { return elements->number(static_cast<std::size_t>(i)); }};
    const auto source = likeness_.find(sampled, fit_of(number));
    if (!source) return;
    for (const CastRange& range : cast_ranges) {
      if (range.is_limited() && prove(number, {CastStep{DType::float16, range}, {*source}})) return;
    }
  }

  // Finds a result of the program that another tool computed with other roundings.
  void find_computed(TensorNumber number) {
    const FileTensor& tensor = tensors_[number];
    if (known(number) || from_onnx(tensor.tensor->data_type) != DType::float32) return;
    choose(number, computed_sources(tensor.tensor->dims));
  }

  // Returns the computed tensors of these sizes, as they are, reshaped or transposed.
  std::vector<Expression> computed_sources(const std::vector<std::int64_t>& dims) const {
    std::vector<Expression> sources;
    for (std::size_t i = 0; i < weights_.tensors().size(); ++i) {
      const TensorData& data = weights_.tensors()[i].data;
      const bool fits =
          weights_.is_computed(i) && is_floating(data.dtype) && data.element_count() == element_count(dims);
      if (!fits) continue;
      const Expression leaf{weights_.step_of(i, DType::float32)};
      sources.push_back(reshaped(leaf, data.shape, dims));
      const bool is_transposed = data.shape.size() == 2 && dims.size() == 2 && data.shape[0] == dims[1];
      if (is_transposed) sources.push_back(transposed(leaf));
    }
    return sources;
  }

  void find_quantised_bias(const QuantisedBias& bias) {
    if (bias.input_scale == no_tensor || bias.weight_scale == no_tensor || known(bias.integers)) return;
    const auto& weight_scale = found(bias.weight_scale).expression;
    if (!weight_scale) return;
    const Expression input{KeptStep{std::string(tensors_[bias.input_scale].name)}};
    const TensorData integers = contents_.data(tensors_[bias.integers]);
    for (Expression& candidate : bias_sources(*weight_scale, integers.shape)) {
      Expression expression{QuantiseBiasStep{false}, {candidate, input, *weight_scale}};
      if (!prove(bias.integers, std::move(expression))) continue;
      if (bias.scale != no_tensor) prove(bias.scale, {QuantiseBiasStep{true}, {candidate, input, *weight_scale}});
      return;
    }
    const bool is_near = found(bias.weight_scale).verdict == Verdict::bounded;
    for (Expression& candidate : bias_sources(*weight_scale, integers.shape)) {
      if (!is_near && !is_computed(candidate)) continue;
      const std::vector<Expression> inputs = {candidate, input, *weight_scale};
      if (!differs_little(integers, evaluate({QuantiseBiasStep{false}, inputs}, sources()))) continue;
      const auto set = [&](TensorNumber tensor, bool is_scale) {
        if (tensor == no_tensor || known(tensor)) return;
        found(tensor) = {Verdict::bounded, Expression{QuantiseBiasStep{is_scale}, inputs},
                         "its numbers before they were quantised are known up to rounding", found(tensor).bytes};
      };
      set(bias.integers, false);
      set(bias.scale, true);
      return;
    }
  }

  // Returns true for 32-bit integers that differ by the rounding of single precision.
  static bool differs_little(const TensorData& theirs, const TensorData& ours) {
    const auto a = program::Elements::of(theirs), b = program::Elements::of(ours);
    if (!a || !b || a->size() != b->size()) return false;
    constexpr double relative = 2e-6;
    for (std::size_t i = 0; i < a->size(); ++i) {
      if (std::abs(a->number(i) - b->number(i)) > 1 + relative * std::abs(a->number(i))) return false;
    }
    return true;
  }

  // Only operators with gates or heads have the rows of a parameter in another order than the program.
  void require_order(TensorNumber number) {
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

  // The forward direction of a recurrent layer comes before the reverse one, whose parameters PyTorch names after it.
  static bool begins_with_reverse(const Expression& expression) {
    static constexpr std::string_view ending = "_reverse";
    std::set<std::string, std::less<>> before;
    bool is_exchanged = false;
    for_each_parameter(expression, [&](const ParameterStep& step) {
      is_exchanged = is_exchanged || before.contains(step.name + std::string(ending));
      before.insert(step.name);
    });
    return is_exchanged;
  }

  // A measurement gives a positive scale.
  void note_range(TensorNumber range) {
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

  // The biases that may belong to a weight: the parameter `bias` beside it, with a norm if one was folded in, and any
  // vector of the checkpoint with these sizes.
  std::vector<Expression> bias_sources(const Expression& weight_scale, const std::vector<std::int64_t>& dims) {
    std::vector<Expression> candidates = folded_biases(weight_scale.inputs.at(0));
    std::erase_if(candidates, [&](const Expression& candidate) { return dims_of(candidate) != dims; });
    for (std::size_t i = 0; i < weights_.tensors().size(); ++i) {
      const TensorData& data = weights_.tensors()[i].data;
      if (data.shape == dims && is_floating(data.dtype)) candidates.push_back({weights_.step_of(i, DType::float32)});
    }
    return candidates;
  }

  void find_constants() {
    // The bias of a product with a folded norm is computed from the norm: no constant of the program stands there.
    std::set<TensorNumber> folded_bias;
    for (const Product& product : tensors_.products()) {
      const auto& weight = product.weight == no_tensor ? std::nullopt : found(product.weight).expression;
      if (weight && !norms_.folded_weight(*weight).empty()) folded_bias.insert(product.bias);
    }
    for (std::size_t i = 0; i < found_.size(); ++i) {
      const auto number = static_cast<TensorNumber>(i);
      if (known(number) || !found(number).remark.empty() || folded_bias.contains(number)) continue;
      const TensorData data = contents_.data(tensors_[number]);
      const bool is_short =
          (is_integral(data.dtype) || data.dtype == DType::boolean) && data.element_count() <= max_structure;
      if ((is_short && is_structure(tensors_[number])) || (constants_ != nullptr && constants_->holds(data)))
        found(number).verdict = Verdict::constant;
    }
  }

  // One run of a tool uses one rule for its scales. Chooses the rule that gives most of them, and refuses tensors whose
  // scale does not follow from it: it may have been changed to what another rule gives by chance.
  void choose_scale_rules() {
    constexpr std::size_t rules = 4;
    const auto has = [](const Scheme& scheme, std::size_t rule) { return (scheme.equal_rules >> rule & 1U) != 0; };
    const auto step_of = [](Derivation& each) {
      return each.expression ? std::get_if<QuantiseStep>(&each.expression->step) : nullptr;
    };
    std::map<Layout, std::vector<Scheme>> schemes;
    for (Derivation& each : found_) {
      const QuantiseStep* const step = step_of(each);
      if (step != nullptr && step->part == QuantiseStep::Part::scales)
        schemes[step->scheme.layout].push_back(step->scheme);
    }
    for (Derivation& each : found_) {
      QuantiseStep* const step = step_of(each);
      if (step == nullptr) continue;
      const auto& all = schemes[step->scheme.layout];
      // ONNX Runtime's quantiser in Python computes in double precision, that of blocks in C++ in single. A tie, which
      // weights of a new model give, goes to that rule.
      const bool is_plain = step->scheme.layout == Layout::plain;
      const auto usual = static_cast<std::size_t>(is_plain ? ScaleRule::range_in_double : ScaleRule::range_in_float);
      const auto count = [&](std::size_t rule) {
        const auto fitting = std::ranges::count_if(all, [&](const Scheme& scheme) { return has(scheme, rule); });
        return static_cast<double>(fitting) * (rule == usual ? 1.1 : 1.0);
      };
      std::size_t common = usual, own = static_cast<std::size_t>(step->scheme.scale_rule);
      for (std::size_t rule = 0; rule < rules; ++rule) {
        if (count(rule) > count(common)) common = rule;
        if (has(step->scheme, rule) && count(rule) > count(own)) own = rule;
      }
      step->scheme.scale_rule = static_cast<ScaleRule>(own);
      const bool is_rare = own != common && count(own) < count(common);
      if (is_rare && step->part == QuantiseStep::Part::scales) {
        each = {Verdict::unaccounted, {}, "its scale follows another rule than those of the other tensors", each.bytes};
      }
    }
  }

  // Exporters store equal tensors once, so a tensor may stand for every parameter with its bytes that no other tensor
  // holds. If the names distinguish all of them, nothing was merged.
  void drop_certain_equals() {
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

  const FileTensors& tensors_;
  Contents& contents_;
  const Weights& weights_;
  const ProgramConstants* constants_;
  Likeness likeness_;
  FoldedNorms norms_;
  FoldedVectors vectors_;
  std::vector<Derivation> found_;
  std::vector<TensorNames> names_;
  std::map<DType, std::unique_ptr<ContentIndex>> indexes_;
  std::string integers_, scales_, zeros_;
};

}  // namespace

std::vector<Derivation> derive(const FileTensors& tensors, Contents& contents, const Weights& weights,
                               const ProgramConstants* constants) {
  return Deriver(tensors, contents, weights, constants).run();
}

}  // namespace whence::derivation
