// Finds what tools folded into weights, computed from them, or stored in another layout.
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "annotator/derivation/blocked_layouts.h"
#include "annotator/derivation/deriver.h"
#include "annotator/derivation/element_views.h"
#include "annotator/program/tensor_values.h"
#include "schema/element_count.h"

namespace whence::derivation {

namespace {

constexpr float rounding_bound = 4 * 1.1920929e-7F;  // four units in the last place, relative to the largest element
constexpr double least_in_range = 1e-7;              // the largest lower end of a CastRange
constexpr const char* halves_remark = "its numbers before they were rounded to float16 are known up to rounding";

TensorData first_elements(const TensorData& data, std::int64_t count) {
  const std::size_t size = static_cast<std::size_t>(count) * size_of(data.dtype);
  return {data.dtype, {count}, Bytes::part_of(nullptr, text_of(data).data(), size)};
}

// Returns true if a float16 tensor has these numbers, put into a range before they were rounded. Most ranges that are
// not the tensor's show within few elements.
bool is_half_of(const TensorData& half, const TensorData& numbers, const CastRange& range) {
  constexpr std::int64_t few = 4096;
  const std::int64_t count = numbers.element_count();
  if (numbers.dtype != DType::float32 || half.element_count() != count) return false;
  const auto fits = [&](std::int64_t elements) {
    const TensorData rounded = rounded_to_half(first_elements(numbers, elements), range);
    return text_of(half).starts_with(text_of(rounded));
  };
  return (count <= few || fits(few)) && fits(count);
}

std::string number_text(float number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

}  // namespace

std::vector<Expression> Deriver::folded_candidates(const Expression& source, const TensorData& real,
                                                   const SampledTensor& tensor, std::int64_t axis) const {
  std::vector<Expression> candidates = norms_.candidates(source, real, tensor, axis);
  std::ranges::move(vectors_.candidates(source, real, tensor, axis), std::back_inserter(candidates));
  return candidates;
}

std::vector<Expression> Deriver::folded_biases(const Expression& weight) const {
  return FoldedVectors::is_scaled(weight) ? vectors_.bias_candidates(weight) : norms_.bias_candidates(weight);
}

void Deriver::find_folded(const Product& product) {
  if (known(product.weight)) return find_folded_bias(product);
  const TensorData weight = contents_.data(tensors_[product.weight]);
  const auto elements = program::Elements::of(weight);
  if (!elements || !is_floating(weight.dtype) || weight.shape.size() < 2) return;
  const SampledTensor sampled{weight.shape,
                              [&](std::int64_t i) { return elements->number(static_cast<std::size_t>(i)); }};
  const auto source = likeness_.find(sampled, fit_of(product.weight));
  if (!source) return;
  if (product.groups > 1) {
    find_grouped(product, *source);
  } else {
    std::vector<Expression> candidates;
    for (const Expression& each : with_computed_from(*source)) {
      std::ranges::move(folded_candidates(each, evaluate(each, sources()), sampled, product.axis),
                        std::back_inserter(candidates));
    }
    choose(product.weight, candidates);
  }
  find_folded_bias(product);
}

void Deriver::find_grouped(const Product& product, const Expression& source) {
  const std::vector<std::int64_t>& dims = tensors_[product.weight].tensor->dims;
  const std::int64_t groups = product.groups;
  if (dims.size() < 2 || dims[0] % groups != 0 || element_count(dims) == 0) return;
  const std::int64_t inputs = dims[0] / groups, inner = element_count(dims) / dims[0] / dims[1];
  const std::vector<std::int64_t> by_group = {groups, inputs, dims[1], inner},
                                  by_input = {inputs, groups, dims[1], inner},
                                  by_channel = {inputs, groups * dims[1], inner};
  const TransposeStep exchanged{{1, 0, 2, 3}};
  const auto with_channels = [&](Expression weight) {
    Expression turned{exchanged, {reshaped(std::move(weight), dims, by_group)}};
    return reshaped(std::move(turned), by_input, by_channel);
  };
  const auto with_groups = [&](Expression weight) {
    Expression turned{exchanged, {reshaped(std::move(weight), by_channel, by_input)}};
    return reshaped(std::move(turned), by_group, dims);
  };
  const TensorData stored = evaluate(with_channels({KeptStep{std::string(tensors_[product.weight].name)}}), sources());
  const auto elements = program::Elements::of(stored);
  const SampledTensor sampled{stored.shape,
                              [&](std::int64_t i) { return elements->number(static_cast<std::size_t>(i)); }};
  const Expression arranged = with_channels(source);
  std::vector<Expression> candidates = folded_candidates(arranged, evaluate(arranged, sources()), sampled, 1);
  for (Expression& candidate : candidates) candidate = with_groups(std::move(candidate));
  choose(product.weight, candidates);
}

void Deriver::find_folded_bias(const Product& product) {
  if (product.bias == no_tensor || known(product.bias) || !found(product.weight).expression) return;
  choose(product.bias, folded_biases(*found(product.weight).expression));
}

void Deriver::find_blocked(TensorNumber number) {
  for (const BlockedLayout& layout : blocked_layouts(tensors_[number])) {
    if (known(number)) return;
    const TensorData filled = evaluate(layout.plain({KeptStep{std::string(tensors_[number].name)}}), sources());
    const TensorData plain = resized(filled, without_padding(filled));
    const auto elements = program::Elements::of(plain);
    if (!elements) return;
    const auto blocked = [&](Expression weight) {
      return layout.blocked(plain.shape == filled.shape ? std::move(weight) : padded(std::move(weight), filled.shape));
    };
    if (auto whole = index(plain.dtype).find({plain.dtype, plain.shape, text_of(plain)}, fit_of(number))) {
      if (prove(number, blocked(std::move(*whole)))) return;
    }
    const SampledTensor sampled{plain.shape,
                                [&](std::int64_t i) { return elements->number(static_cast<std::size_t>(i)); }};
    const auto source = likeness_.find(sampled, fit_of(number));
    if (!source) continue;
    std::vector<Expression> candidates;
    for (const Expression& each : with_computed_from(*source)) {
      for (Expression& candidate : folded_candidates(each, evaluate(each, sources()), sampled, 0))
        candidates.push_back(blocked(std::move(candidate)));
    }
    choose(number, candidates);
  }
}

Expression Deriver::padded(Expression input, std::vector<std::int64_t> dims) {
  return {PadStep{std::move(dims)}, {std::move(input)}};
}

void Deriver::find_blocked_bias(TensorNumber number) {
  const FileTensor& tensor = tensors_[number];
  const auto& dims = tensor.tensor->dims;
  if (known(number) || dims.size() != 1 || !reads_in_blocks(tensor, 2)) return;
  for (const Use& use : tensor.uses) {
    const TensorNumber weight = use.node->inputs.size() > 1 ? tensors_.find(use.node->inputs[1]) : no_tensor;
    if (weight == no_tensor || !found(weight).expression) continue;
    std::vector<Expression> candidates = folded_biases(*found(weight).expression);
    constexpr std::int64_t longest_block = 16;
    for (std::int64_t count = dims[0]; count > 0 && count > dims[0] - longest_block; --count)
      std::ranges::move(computed_sources({count}), std::back_inserter(candidates));
    for (Expression& candidate : candidates) candidate = padded(std::move(candidate), dims);
    if (!known(number)) choose(number, candidates);
  }
}

void Deriver::find_remaining_biases() {
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

void Deriver::choose(TensorNumber number, const std::vector<Expression>& candidates) {
  const TensorData tensor = contents_.data(tensors_[number]);
  if (tensor.dtype == DType::float16) return choose_half(number, tensor, candidates);
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

void Deriver::choose_half(TensorNumber number, const TensorData& tensor, const std::vector<Expression>& candidates) {
  for (const Expression& candidate : candidates) {
    const TensorData result = evaluate(candidate, sources());
    for (const CastRange& range : cast_ranges) {
      if (is_half_of(tensor, result, range)) return set_exact(number, {CastStep{DType::float16, range}, {candidate}});
    }
    if (known(number) || !is_computed(candidate) || !is_rounded_from(tensor, result)) continue;
    found(number) = {Verdict::bounded, Expression{CastStep{DType::float16}, {candidate}}, halves_remark,
                     found(number).bytes};
  }
}

bool Deriver::is_computed(const Expression& expression) {
  if (std::holds_alternative<FoldStep>(expression.step) || std::holds_alternative<ByChannelStep>(expression.step))
    return true;
  const auto* const parameter = std::get_if<ParameterStep>(&expression.step);
  return (parameter != nullptr && parameter->is_rounded) || std::ranges::any_of(expression.inputs, is_computed);
}

std::optional<float> Deriver::rounding_difference(const TensorData& tensor, const TensorData& result) {
  if (tensor.bytes.size() != result.bytes.size()) return {};
  const auto theirs = floats_of(tensor), ours = floats_of(result);
  float largest = 0, difference = 0;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    largest = std::max(largest, std::abs(ours[i]));
    difference = std::max(difference, std::abs(ours[i] - theirs[i]));
  }
  return difference <= largest * rounding_bound ? std::optional(difference) : std::nullopt;
}

bool Deriver::is_rounded_from(const TensorData& half, const TensorData& result) {
  if (half.element_count() != result.element_count() || result.dtype != DType::float32) return false;
  const auto ours = floats_of(result);
  float largest = 0;
  for (const float number : ours) largest = std::max(largest, std::abs(number));
  std::vector<float> low(ours.begin(), ours.end()), high = low;
  for (float& number : low) number -= largest * rounding_bound;
  for (float& number : high) number += largest * rounding_bound;
  const auto least = program::cast_tensor(of_floats(low, result.shape), DType::float16);
  const auto most = program::cast_tensor(of_floats(high, result.shape), DType::float16);
  if (!least || !most) return false;
  const auto from = program::Elements::of(*least), to = program::Elements::of(*most),
             theirs = program::Elements::of(half);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double number = theirs->number(i);
    // Converters let no number become 0 (CastRange).
    const bool is_least = std::abs(ours[i]) < least_in_range && std::abs(number) < 2 * least_in_range;
    if (!is_least && (number < from->number(i) || number > to->number(i))) return false;
  }
  return true;
}

void Deriver::find_rounded(TensorNumber number) {
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

void Deriver::find_computed(TensorNumber number) {
  const FileTensor& tensor = tensors_[number];
  if (known(number) || from_onnx(tensor.tensor->data_type) != DType::float32) return;
  choose(number, computed_sources(tensor.tensor->dims));
}

std::vector<Expression> Deriver::with_computed_from(const Expression& source) const {
  std::set<std::string, std::less<>> names;
  for_each_parameter(source, [&](const ParameterStep& step) { names.insert(step.name); });
  std::vector<Expression> found;
  for (Expression& computed : computed_sources(dims_of(source))) {
    bool reads = false;
    for_each_parameter(computed, [&](const ParameterStep& step) {
      reads =
          reads || std::ranges::any_of(step.parameters, [&](const std::string& name) { return names.contains(name); });
    });
    if (reads) found.push_back(std::move(computed));
  }
  found.push_back(source);
  return found;
}

std::vector<Expression> Deriver::computed_sources(const std::vector<std::int64_t>& dims) const {
  std::vector<Expression> sources;
  for (std::size_t i = 0; i < weights_.tensors().size(); ++i) {
    const TensorData& data = weights_.tensors()[i].data;
    const bool fits = weights_.is_computed(i) && is_floating(data.dtype) && data.element_count() == element_count(dims);
    if (!fits) continue;
    const Expression leaf{weights_.step_of(i, DType::float32)};
    sources.push_back(reshaped(leaf, data.shape, dims));
    const bool is_transposed = data.shape.size() == 2 && dims.size() == 2 && data.shape[0] == dims[1];
    if (is_transposed) sources.push_back(transposed(leaf));
  }
  return sources;
}

}  // namespace whence::derivation
