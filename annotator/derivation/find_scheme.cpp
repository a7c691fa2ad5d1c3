#include "annotator/derivation/find_scheme.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "schema/small_floats.h"

namespace whence::derivation {
namespace {

struct IntegerRange {
  int low, high;
};

// The ranges that tools use for integers of some bits.
std::vector<IntegerRange> ranges_of(int bits, bool is_signed) {
  const int half = 1 << (bits - 1);
  if (is_signed) {
    return {{-half + 1, half - 1}, {-half, half - 1}, {-half / 2, half / 2}, {-half / 2, half / 2 - 1}};
  }
  return {{0, 2 * half - 1}, {0, half - 1}, {1, 2 * half - 1}};
}

std::vector<Scheme> schemes(const QuantisedWeight& weight, bool half_scales) {
  std::vector<Scheme> found;
  const int half = 1 << (weight.bits - 1);
  for (const auto [low, high] : ranges_of(weight.bits, weight.is_signed)) {
    for (const bool symmetric : {true, false}) {
      for (const ScaleRule rule :
           {ScaleRule::range_in_double, ScaleRule::range_in_float, ScaleRule::largest, ScaleRule::signed_largest}) {
        if (rule == ScaleRule::signed_largest && !symmetric) continue;
        if (rule == ScaleRule::largest && (!symmetric || !weight.is_signed)) continue;
        Scheme scheme{.bits = weight.bits,
                      .is_signed = weight.is_signed,
                      .low = low,
                      .high = high,
                      .clip_low = weight.is_signed ? -half : 0,
                      .clip_high = weight.is_signed ? half - 1 : 2 * half - 1,
                      .is_symmetric = symmetric,
                      .groups = weight.groups,
                      .scale_rule = rule,
                      .layout = weight.layout,
                      .half_scales = half_scales};
        if (rule == ScaleRule::signed_largest) scheme.low = -half;
        found.push_back(scheme);
      }
    }
  }
  return found;
}

// The rounding of ONNX Runtime's blocks in C++ comes first for their layouts, else that of its quantiser in Python: two
// roundings give the same integers for most tensors.
constexpr std::array roundings_of_blocks = {Rounding::multiply_from_zero,     Rounding::divide_from_zero,
                                            Rounding::divide_to_even,         Rounding::multiply_to_even,
                                            Rounding::divide_shifted_to_even, Rounding::divide_unsigned_to_even};
constexpr std::array tried_roundings = {Rounding::divide_to_even,         Rounding::multiply_from_zero,
                                        Rounding::multiply_to_even,       Rounding::divide_from_zero,
                                        Rounding::divide_shifted_to_even, Rounding::divide_unsigned_to_even};

// Returns all roundings, the likely ones first.
std::vector<Rounding> roundings_for(const QuantisedWeight& weight, bool is_of_blocks) {
  const auto& all = is_of_blocks ? roundings_of_blocks : tried_roundings;
  std::vector<Rounding> ordered(all.begin(), all.end());
  const auto usual = std::ranges::find(ordered, weight.usual_rounding);
  std::rotate(ordered.begin(), usual, usual == ordered.end() ? usual : usual + 1);
  return ordered;
}

// Also determines the padding of the zero points.
bool same_zeros(const GroupScales& groups, Scheme& scheme, const QuantisedWeight& weight, const StoredParts& stored,
                std::int64_t rows) {
  if (!stored.has_zeros) {
    return std::ranges::all_of(groups.zeros, [&](std::int32_t zero) { return zero == weight.default_zero; });
  }
  for (const int padding : {0, 8}) {
    scheme.zero_padding = padding;
    if (stored_zeros(groups, scheme, rows) == stored.zeros) return true;
  }
  return false;
}

// Adds the rule of another scheme that gives the same scales, if both differ in their rules only.
void add_rule(Scheme& scheme, const Scheme& other) {
  if (other.low != scheme.low || other.is_symmetric != scheme.is_symmetric) return;
  scheme.equal_rules = static_cast<std::uint8_t>(scheme.equal_rules | 1U << static_cast<unsigned>(other.scale_rule));
}

// Returns true if the scales differ by a few units in the last place, and the zero points not at all.
bool near_scales(const GroupScales& ours, const GroupScales& theirs) {
  constexpr float most = 1e-6F;
  return ours.scales.size() == theirs.scales.size() && ours.zeros == theirs.zeros &&
         std::ranges::equal(ours.scales, theirs.scales,
                            [](float a, float b) { return std::abs(a - b) <= most * std::abs(b); });
}

// Returns true if integers differ only by one and only where the number is halfway between both. `theirs`: the stored
// integers, in the order of the numbers.
bool near_integers(const Numbers& numbers, const Scheme& scheme, const GroupScales& groups,
                   std::span<const std::int32_t> theirs) {
  const std::vector<std::int16_t> ours = integers(numbers, scheme, groups);
  if (theirs.size() != ours.size()) return false;
  const GroupShape shape(scheme.groups, numbers.dims);
  // The rounding of single precision, in steps of the integers.
  const float halfway = scheme.bits == 16 ? 2e-2F : 1e-3F;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (theirs[i] == ours[i]) continue;
    const std::size_t group = shape.group_of(static_cast<std::int64_t>(i));
    const float exact = numbers.values[i] / groups.scales[group] + static_cast<float>(groups.zeros[group]);
    if (std::abs(theirs[i] - ours[i]) != 1 || std::abs(std::abs(exact - std::trunc(exact)) - 0.5F) > halfway)
      return false;
  }
  return true;
}

}  // namespace

std::optional<Scheme> find_near_scheme(const Numbers& numbers, const QuantisedWeight& weight, const StoredParts& stored,
                                       const GroupScales& theirs, std::span<const std::int32_t> integers) {
  const std::vector<Range> ranges = group_ranges(numbers, weight.groups);
  std::optional<Scheme> found;
  for (Scheme& scheme : schemes(weight, stored.half_scales)) {
    if (!near_scales(group_scales(ranges, scheme), theirs)) continue;
    if (found) {
      add_rule(*found, scheme);
      continue;
    }
    for (const Rounding rounding : tried_roundings) {
      scheme.rounding = rounding;
      if (!near_integers(numbers, scheme, theirs, integers)) continue;
      found = scheme;
      add_rule(*found, scheme);
      break;
    }
  }
  return found;
}

std::optional<Scheme> find_scales(const Numbers& numbers, const QuantisedWeight& weight, const StoredParts& stored) {
  const std::vector<Range> ranges = group_ranges(numbers, weight.groups);
  std::optional<Scheme> found;
  for (Scheme& scheme : schemes(weight, stored.half_scales)) {
    const GroupScales groups = group_scales(ranges, scheme);
    if (stored_scales(groups, scheme) != stored.scales || !same_zeros(groups, scheme, weight, stored, 1)) continue;
    if (!found) found = scheme;
    add_rule(*found, scheme);
  }
  return found;
}

SchemeFinding find_scheme(const Numbers& numbers, const QuantisedWeight& weight, const StoredParts& stored) {
  SchemeFinding finding;
  const std::vector<Range> ranges = group_ranges(numbers, weight.groups);
  const std::int64_t rows = numbers.dims.empty() ? 1 : numbers.dims[0];
  for (Scheme& scheme : schemes(weight, stored.half_scales)) {
    const GroupScales groups = group_scales(ranges, scheme);
    if (stored_scales(groups, scheme) != stored.scales || !same_zeros(groups, scheme, weight, stored, rows)) continue;
    if (finding.exact_integers) {
      add_rule(finding.scheme, scheme);
      continue;
    }
    add_rule(scheme, scheme);
    finding.exact_scales = true;
    finding.scheme = scheme;
    // ONNX Runtime's blocks are not symmetric around 0.
    const bool is_of_blocks = weight.layout != Layout::plain && scheme.low != -scheme.high;
    for (const Rounding rounding : roundings_for(weight, is_of_blocks)) {
      if (finding.exact_integers) break;
      scheme.rounding = rounding;
      for (const bool padding : {false, true}) {
        if (padding && scheme.layout != Layout::n_bits) continue;
        scheme.pads_with_zero_points = padding;
        if (stored_integers(numbers, scheme, groups) != stored.integers) continue;
        scheme.equal_roundings = equal_roundings(numbers, scheme, groups);
        finding.scheme = scheme;
        finding.exact_integers = true;
        break;
      }
    }
  }
  return finding;
}

}  // namespace whence::derivation
