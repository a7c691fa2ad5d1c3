#include "annotator/derivation/find_scheme.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
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
constexpr std::array roundings_of_blocks = {Rounding::multiply_from_zero, Rounding::divide_from_zero,
                                            Rounding::divide_to_even, Rounding::multiply_to_even};
constexpr std::array tried_roundings = {Rounding::divide_to_even, Rounding::multiply_from_zero,
                                        Rounding::multiply_to_even, Rounding::divide_from_zero};

// Also determines the padding of the zero points.
bool same_zeros(const GroupScales& groups, Scheme& scheme, const StoredParts& stored, std::int64_t rows) {
  if (!stored.has_zeros) {
    const std::int32_t without = scheme.layout == Layout::n_bits ? 1 << (scheme.bits - 1) : 0;
    return std::ranges::all_of(groups.zeros, [&](std::int32_t zero) { return zero == without; });
  }
  for (const int padding : {0, 8}) {
    scheme.zero_padding = padding;
    if (stored_zeros(groups, scheme, rows) == stored.zeros) return true;
  }
  return false;
}

}  // namespace

SchemeFinding find_scheme(const Numbers& numbers, const QuantisedWeight& weight, const StoredParts& stored) {
  SchemeFinding finding;
  const std::vector<Range> ranges = group_ranges(numbers, weight.groups);
  const std::int64_t rows = numbers.dims.empty() ? 1 : numbers.dims[0];
  for (Scheme& scheme : schemes(weight, stored.half_scales)) {
    const GroupScales groups = group_scales(ranges, scheme);
    if (stored_scales(groups, scheme) != stored.scales || !same_zeros(groups, scheme, stored, rows)) continue;
    // A later scheme differs from the first one that fits in its rule only.
    const auto bit = static_cast<std::uint8_t>(1U << static_cast<unsigned>(scheme.scale_rule));
    if (finding.exact_integers) {
      const bool same_range = scheme.low == finding.scheme.low && scheme.is_symmetric == finding.scheme.is_symmetric;
      if (same_range) finding.scheme.equal_rules |= bit;
      continue;
    }
    scheme.equal_rules = bit;
    finding.exact_scales = true;
    finding.scheme = scheme;
    for (const Rounding rounding : weight.layout == Layout::plain ? tried_roundings : roundings_of_blocks) {
      if (finding.exact_integers) break;
      scheme.rounding = rounding;
      for (const bool padding : {false, true}) {
        if (padding && scheme.layout != Layout::n_bits) continue;
        scheme.pads_with_zero_points = padding;
        if (stored_integers(numbers, scheme, groups) != stored.integers) continue;
        finding.scheme = scheme;
        finding.exact_integers = true;
        break;
      }
    }
  }
  return finding;
}

}  // namespace whence::derivation
