// Finds the schemes by which tools quantised weights and biases.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "annotator/derivation/dequantise.h"
#include "annotator/derivation/deriver.h"
#include "annotator/derivation/element_views.h"
#include "annotator/derivation/untransposed.h"
#include "annotator/program/tensor_values.h"
#include "schema/element_count.h"

namespace whence::derivation {

namespace {

// Returns sources for weights that were float16 before.
std::vector<Expression> as_float16(const std::vector<Expression>& sources) {
  std::vector<Expression> all;
  for (const Expression& source : sources) {
    for (const CastRange& range : cast_ranges)
      all.push_back({CastStep{DType::float32}, {{CastStep{DType::float16, range}, {source}}}});
  }
  return all;
}

// Returns the stored integers in the order of the numbers.
std::vector<std::int32_t> integers_of(const SampledTensor& numbers, const GroupScales& groups,
                                      const QuantisedWeight& weight) {
  const GroupShape shape(weight.groups, weight.dims);
  std::vector<std::int32_t> integers(static_cast<std::size_t>(element_count(weight.dims)));
  for (std::size_t i = 0; i < integers.size(); ++i) {
    const auto element = static_cast<std::int64_t>(i);
    const std::size_t group = shape.group_of(element);
    const double scale = groups.scales[group];
    integers[i] = groups.zeros[group] +
                  (scale == 0 ? 0 : static_cast<std::int32_t>(std::lround(numbers.number(element) / scale)));
  }
  return integers;
}

}  // namespace

StoredParts Deriver::stored_parts(const QuantisedWeight& weight) {
  integers_ = weight.integers == no_tensor ? "" : contents_.of(tensors_[weight.integers]);
  scales_ = weight.scales == no_tensor ? "" : contents_.of(tensors_[weight.scales]);
  zeros_ = weight.zeros == no_tensor ? "" : contents_.of(tensors_[weight.zeros]);
  const bool half =
      weight.scales != no_tensor && from_onnx(tensors_[weight.scales].tensor->data_type) == DType::float16;
  return {integers_, scales_, zeros_, weight.zeros != no_tensor, half};
}

std::vector<Expression> Deriver::small_sources(const std::vector<std::int64_t>& dims) const {
  constexpr std::int64_t most = 4096;  // elements
  const std::int64_t count = element_count(dims);
  std::vector<Expression> sources;
  for (std::size_t i = 0; i < weights_.tensors().size() && count <= most; ++i) {
    const TensorData& data = weights_.tensors()[i].data;
    if (weights_.is_computed(i) || !is_floating(data.dtype)) continue;
    const Expression parameter{weights_.step_of(i, DType::float32)};
    if (data.element_count() == count) sources.push_back(reshaped(parameter, data.shape, dims));
    // Biases of queries, keys and values are stored together.
    const bool is_joined = data.shape.size() == 1 && count >= 4 && data.element_count() == 3 * count;
    for (std::int64_t part = 0; is_joined && part < 3; ++part)
      sources.push_back(reshaped({PickStep{{{part * count, count, 1}}}, {parameter}}, {count}, dims));
  }
  return sources;
}

std::vector<Expression> Deriver::quantised_candidates(const QuantisedWeight& weight, const SampledTensor& numbers,
                                                      const std::optional<Expression>& source, Before before) {
  const std::vector<Expression> alike = source ? orientations_of(weight, *source) : std::vector<Expression>();
  std::vector<Expression> candidates;
  const auto add = [&](std::vector<Expression> others) { std::ranges::move(others, std::back_inserter(candidates)); };
  switch (before) {
    case Before::unchanged:
      // What the program computes from a parameter may have the same integers: the parameter itself comes first. Equal
      // elements are like no parameter, or like any.
      add(alike);
      add(small_sources(weight.dims));
      add(computed_sources(weight.dims));
      break;
    case Before::folded:
      for (const Expression& each : alike) add(folded_sources(weight, each, numbers));
      // Integers of a weight whose channels differ much in size are like no parameter.
      add(norms_.pairs_of(weight.dims));
      add(vectors_.scaled_weights(weight.dims));
      break;
    case Before::float16:
      for (const Expression& each : alike) {
        add(as_float16({each}));
        add(as_float16(folded_sources(weight, each, numbers)));
      }
      break;
  }
  return candidates;
}

std::vector<Expression> Deriver::orientations_of(const QuantisedWeight& weight, const Expression& source) const {
  if (weight.dims.size() != 2 || weight.dims[0] != weight.dims[1]) return {source};
  const auto* const turn = std::get_if<TransposeStep>(&source.step);
  std::vector<Expression> found = {source, turn == nullptr ? transposed(source) : source.inputs[0]};
  if (orientations_.is_transposed(tensors_, weight.integers, source)) std::swap(found[0], found[1]);
  return found;
}

void Deriver::find_quantised(const QuantisedWeight& weight) {
  if (known(weight.integers) || weight.scales == no_tensor) return;
  const StoredParts stored = stored_parts(weight);
  const auto numbers = dequantised(tensors_, contents_, weight);
  if (!numbers) return;
  const auto source = likeness_.find(*numbers, fit_of(weight.integers));
  bool has_candidates = false;
  // Scales alone may be those of several candidates, for example before and after a rounding to float16.
  std::optional<std::pair<Expression, Scheme>> scales_fit;
  const auto find_exactly = [&](const std::vector<Expression>& all) {
    for (const Expression& candidate : all) {
      const SchemeFinding finding = find_scheme_of(candidate, weight, stored);
      if (finding.exact_integers) set_quantised(weight, candidate, finding.scheme, true);
      if (finding.exact_integers) return true;
      if (finding.exact_scales && !scales_fit) scales_fit.emplace(candidate, finding.scheme);
    }
    return false;
  };
  // Numbers that are known up to rounding are not those that float16 rounds much more, which are many and slow to
  // compute.
  for (const Before before : before_quantising) {
    const std::vector<Expression> all = quantised_candidates(weight, *numbers, source, before);
    has_candidates = has_candidates || !all.empty();
    if (find_exactly(all) || find_near_quantised(weight, all, stored)) return;
  }
  find_quantised_constant(weight, stored);
  if (!has_candidates || known(weight.integers)) return;
  if (scales_fit) {
    set_quantised(weight, scales_fit->first, scales_fit->second, false);
    found(weight.integers).remark = "not the nearest integers for " + to_text(scales_fit->first);
    return note_distance(weight, *numbers, scales_fit->first);
  }
  if (!source) return;
  found(weight.integers).remark = "similar to " + to_text(*source) + ", but by no known scheme";
  note_distance(weight, *numbers, *source);
}

SchemeFinding Deriver::find_scheme_of(const Expression& candidate, const QuantisedWeight& weight,
                                      const StoredParts& stored) const {
  const Untransposed before = untransposed(candidate, weight.layout, weight.groups);
  const TensorData real = evaluate(*before.weight, sources());
  const Numbers numbers{floats_of(real), real.shape};
  if (before.transpose == nullptr) return find_scheme(numbers, weight, stored);
  const std::vector<std::int64_t> dims = dims_of(candidate);
  const DType dtype = weight.bits > 8 ? DType::int16 : DType::int8;
  if (stored.integers.size() != static_cast<std::size_t>(element_count(dims)) * size_of(dtype)) return {};
  const Bytes integers = Bytes::part_of(nullptr, stored.integers.data(), stored.integers.size());
  const TensorData turned = transposed({dtype, dims, integers}, inverse_of(*before.transpose));
  QuantisedWeight weight_before = weight;
  weight_before.groups = before.groups;
  StoredParts parts = stored;
  parts.integers = text_of(turned);
  SchemeFinding finding = find_scheme(numbers, weight_before, parts);
  finding.scheme.groups = weight.groups;
  return finding;
}

bool Deriver::find_by_rule(const QuantisedWeight& weight, ScaleRule rule) {
  const StoredParts stored = stored_parts(weight);
  const auto numbers = dequantised(tensors_, contents_, weight);
  if (!numbers) return false;
  const auto source = likeness_.find(*numbers, fit_of(weight.integers));
  for (const Before before : before_quantising) {
    const std::vector<Expression> all = quantised_candidates(weight, *numbers, source, before);
    for (const Expression& candidate : all) {
      SchemeFinding finding = find_scheme_of(candidate, weight, stored);
      if (!finding.exact_integers || !finding.scheme.follows(rule)) continue;
      finding.scheme.scale_rule = rule;
      set_quantised(weight, candidate, finding.scheme, true);
      return true;
    }
    if (find_near_quantised(weight, all, stored)) return true;
  }
  return false;
}

bool Deriver::find_near_quantised(const QuantisedWeight& weight, const std::vector<Expression>& candidates,
                                  const StoredParts& stored) {
  if (std::ranges::none_of(candidates, is_computed)) return false;
  const auto theirs = stored_groups(tensors_, contents_, weight);
  const auto stored_numbers = dequantised(tensors_, contents_, weight);
  if (!theirs || !stored_numbers) return false;
  const std::vector<std::int32_t> integers = integers_of(*stored_numbers, *theirs, weight);
  for (const Expression& candidate : candidates) {
    if (!is_computed(candidate)) continue;
    const TensorData real = evaluate(candidate, sources());
    const auto scheme = find_near_scheme({floats_of(real), real.shape}, weight, stored, *theirs, integers);
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

void Deriver::set_quantised(const QuantisedWeight& weight, const Expression& source, const Scheme& scheme,
                            bool with_integers) {
  const auto part = [&](QuantiseStep::Part which) { return Expression{QuantiseStep{scheme, which}, {source}}; };
  set_exact(weight.scales, part(QuantiseStep::Part::scales));
  set_exact(weight.zeros, part(QuantiseStep::Part::zero_points));
  if (with_integers) set_exact(weight.integers, part(QuantiseStep::Part::integers));
}

void Deriver::note_distance(const QuantisedWeight& weight, const SampledTensor& numbers, const Expression& source) {
  const auto groups = stored_groups(tensors_, contents_, weight);
  const TensorData real = evaluate(source, sources());
  const auto ours = floats_of(real);
  if (!groups || static_cast<std::int64_t>(ours.size()) != element_count(weight.dims)) return;
  const GroupShape shape(weight.groups, weight.dims);
  // The output channels: the axis with a scale for each, or else the one that is not divided into blocks.
  const bool is_by_row =
      weight.groups.kind == Groups::Kind::channel ? weight.groups.axis == 0 : weight.groups.axis != 0;
  const std::int64_t rows = weight.dims.empty() ? 1 : is_by_row ? weight.dims.front() : weight.dims.back();
  const std::int64_t count = element_count(weight.dims), row_length = count / rows;
  RoundingNoise noise(rows);
  const int low = weight.is_signed ? -(1 << (weight.bits - 1)) : 0, high = low + (1 << weight.bits) - 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t group = shape.group_of(i);
    const double scale = groups->scales[group], step = std::abs(scale), zero = groups->zeros[group];
    // A number beyond the integers has the last one as its nearest.
    const auto [least, most] = std::minmax({(low - zero) * scale / step, (high - zero) * scale / step});
    noise.add(std::clamp(ours[static_cast<std::size_t>(i)] / step, least, most), numbers.number(i) / step,
              static_cast<std::size_t>(is_by_row ? i / row_length : i % rows));
  }
  const RoundingCounts counts = noise.counts();
  constexpr std::array<std::string_view, 4> distances = {"one step", "two steps", "three steps", "four steps"};
  const double steps = std::ceil(noise.largest_distance() - 1e-3);
  if (counts.others == 0) {
    found(weight.integers).remark = "the nearest integers for " + to_text(source) + ", with scales of no known scheme";
  } else if (steps <= static_cast<double>(distances.size())) {
    found(weight.integers).roundings = counts;
    found(weight.integers).remark =
        "within " + std::string(distances.at(static_cast<std::size_t>(std::max(steps, 1.0)) - 1)) + " of " +
        to_text(source) + ": " + std::to_string(counts.others) + " of " + std::to_string(count) +
        " integers are not the nearest ones" +
        (counts.unlike_noise.empty() ? "" : "; unlike the noise of a calibration: " + counts.unlike_noise);
  }
}

void Deriver::find_quantised_constant(const QuantisedWeight& weight, const StoredParts& stored) {
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

std::vector<Expression> Deriver::folded_sources(const QuantisedWeight& weight, const Expression& source,
                                                const SampledTensor& numbers) {
  std::vector<Expression> folded;
  const auto product = std::ranges::find(tensors_.products(), weight.integers, &Product::weight);
  // Operators on integers have their channels on the first or the last axis.
  std::vector<std::int64_t> axes = {0, static_cast<std::int64_t>(weight.dims.size()) - 1};
  if (product != tensors_.products().end()) axes = {product->axis};
  const TensorData real = evaluate(source, sources());
  for (const std::int64_t axis : axes)
    std::ranges::move(folded_candidates(source, real, numbers, axis), std::back_inserter(folded));
  return folded;
}

void Deriver::find_quantised_bias(const QuantisedBias& bias) {
  if (bias.input_scale == no_tensor || bias.weight_scale == no_tensor || known(bias.integers)) return;
  auto weight_scale = found(bias.weight_scale).expression;
  const bool is_measured = std::ranges::find(tensors_.calibrated(), bias.weight_scale) != tensors_.calibrated().end();
  // The nodes of the file compute the weight, and a tool measured it.
  if (!weight_scale && is_measured) weight_scale = Expression{KeptStep{std::string(tensors_[bias.weight_scale].name)}};
  if (!weight_scale) return;
  const Expression input{KeptStep{std::string(tensors_[bias.input_scale].name)}};
  const TensorData integers = contents_.data(tensors_[bias.integers]);
  for (Expression& candidate : bias_sources(*weight_scale, integers.shape, fit_of(bias.integers))) {
    Expression expression{QuantiseBiasStep{false}, {candidate, input, *weight_scale}};
    if (!prove(bias.integers, std::move(expression))) continue;
    if (bias.scale != no_tensor) prove(bias.scale, {QuantiseBiasStep{true}, {candidate, input, *weight_scale}});
    return;
  }
  const bool is_near = found(bias.weight_scale).verdict == Verdict::bounded;
  for (Expression& candidate : bias_sources(*weight_scale, integers.shape, fit_of(bias.integers))) {
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

void Deriver::find_bias_scale(const QuantisedBias& bias) {
  if (known(bias.scale) || bias.input_scale == no_tensor || bias.weight_scale == no_tensor) return;
  const Derivation& weight = found(bias.weight_scale);
  const TensorData input = contents_.data(tensors_[bias.input_scale]),
                   scales = contents_.data(tensors_[bias.weight_scale]);
  if (input.dtype != DType::float32 || input.element_count() != 1 || scales.dtype != DType::float32) return;
  std::vector<float> products;
  for (const float scale : floats_of(scales)) products.push_back(floats_of(input)[0] * scale);
  const auto count = static_cast<std::int64_t>(products.size());
  if (text_of(of_floats(products, {count})) != contents_.of(tensors_[bias.scale])) return;
  const auto& integers = found(bias.integers).expression;
  if (integers && std::holds_alternative<QuantiseBiasStep>(integers->step)) {
    // With the scale of the weight as it is computed anew.
    found(bias.scale) = {Verdict::bounded, Expression{QuantiseBiasStep{true}, integers->inputs},
                         "its numbers before they were quantised are known up to rounding", found(bias.scale).bytes};
  } else if (weight.verdict == Verdict::constant) {
    found(bias.scale).verdict = Verdict::calibrated;  // only the range of the input was measured
  }
}

bool Deriver::differs_little(const TensorData& theirs, const TensorData& ours) {
  const auto a = program::Elements::of(theirs), b = program::Elements::of(ours);
  if (!a || !b || a->size() != b->size()) return false;
  constexpr double relative = 2e-6;
  for (std::size_t i = 0; i < a->size(); ++i) {
    if (std::abs(a->number(i) - b->number(i)) > 1 + relative * std::abs(a->number(i))) return false;
  }
  return true;
}

std::vector<Expression> Deriver::bias_sources(const Expression& weight_scale, const std::vector<std::int64_t>& dims,
                                              const NameFit& fit) {
  std::vector<Expression> candidates;
  if (!weight_scale.inputs.empty()) candidates = folded_biases(weight_scale.inputs[0]);
  std::ranges::move(computed_sources(dims), std::back_inserter(candidates));
  std::erase_if(candidates, [&](const Expression& candidate) { return dims_of(candidate) != dims; });
  std::vector<ParameterStep> others;
  for (std::size_t i = 0; i < weights_.tensors().size(); ++i) {
    const TensorData& data = weights_.tensors()[i].data;
    if (data.shape == dims && is_floating(data.dtype)) others.push_back(weights_.step_of(i, DType::float32));
  }
  std::ranges::stable_sort(others, std::greater(), [&](const ParameterStep& step) { return fit(step.name); });
  for (ParameterStep& step : others) candidates.push_back({std::move(step)});
  return candidates;
}

}  // namespace whence::derivation
