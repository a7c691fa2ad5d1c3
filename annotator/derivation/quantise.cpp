#include "annotator/derivation/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "annotator/program/tensor_values.h"
#include "schema/small_floats.h"

namespace whence::derivation {
namespace {

std::int64_t product(auto first, auto last) { return std::accumulate(first, last, std::int64_t{1}, std::multiplies()); }

// Calls visit(element, group) for all elements in row-major order.
template <class Visit>
void for_each_element(const GroupShape& shape, Visit&& visit) {
  std::size_t element = 0;
  for (std::int64_t o = 0; o < shape.outer; ++o) {
    for (std::int64_t at = 0; at < shape.length; ++at) {
      if (shape.is_shared) {
        const auto group = static_cast<std::size_t>(at / shape.block);
        for (std::int64_t i = 0; i < shape.inner; ++i) visit(element++, group);
      } else {
        const auto first = static_cast<std::size_t>(shape.group(o, at, 0));
        for (std::int64_t i = 0; i < shape.inner; ++i) visit(element++, first + static_cast<std::size_t>(i));
      }
    }
  }
}

float scale_of(const Range& range, const Scheme& scheme) {
  const float magnitude = std::max(-range.least, range.largest);
  const float least = scheme.is_symmetric ? -magnitude : range.least;
  const float largest = scheme.is_symmetric ? magnitude : range.largest;
  switch (scheme.scale_rule) {
    case ScaleRule::range_in_double:
      return static_cast<float>((static_cast<double>(largest) - static_cast<double>(least)) /
                                (static_cast<double>(scheme.high) - scheme.low));
    case ScaleRule::range_in_float:
      return (largest - least) / static_cast<float>(scheme.high - scheme.low);
    case ScaleRule::largest:
      return magnitude / static_cast<float>(scheme.high);
    case ScaleRule::signed_largest:
      return (range.largest > -range.least ? range.largest : range.least) / static_cast<float>(scheme.low);
  }
  return 0;
}

std::int32_t zero_of(const Range& range, float scale, const Scheme& scheme) {
  if (scheme.scale_rule == ScaleRule::signed_largest) return scheme.is_signed ? 0 : -scheme.low;
  if (scheme.is_symmetric) return static_cast<std::int32_t>(std::nearbyint((scheme.low + scheme.high) / 2.0));
  if (scale == 0) return 0;
  double zero = 0;
  if (scheme.scale_rule == ScaleRule::range_in_double) {
    const double exact = (static_cast<double>(range.largest) - static_cast<double>(range.least)) /
                         (static_cast<double>(scheme.high) - scheme.low);
    zero = std::nearbyint(scheme.low - static_cast<double>(range.least) / exact);
  } else {
    zero = std::round(static_cast<float>(scheme.low) - range.least / scale);
  }
  return static_cast<std::int32_t>(
      std::clamp(zero, static_cast<double>(scheme.clip_low), static_cast<double>(scheme.clip_high)));
}

struct Quantiser {
  const Scheme& scheme;

  std::int16_t operator()(float value, float scale, std::int32_t zero) const {
    const float shift = static_cast<float>(zero);
    float result = 0;
    switch (scheme.rounding) {
      case Rounding::divide_to_even:
        result = std::nearbyint(value / scale) + shift;
        break;
      case Rounding::multiply_to_even:
        result = std::nearbyint(value * inverse(scale)) + shift;
        break;
      case Rounding::divide_shifted_to_even:
        result = std::nearbyint(value / scale + shift);
        break;
      case Rounding::divide_unsigned_to_even: {
        const auto half = static_cast<float>(scheme.is_signed ? 1 << (scheme.bits - 1) : 0);
        result = std::nearbyint(value / scale + (shift + half)) - half;
        break;
      }
      case Rounding::multiply_from_zero:
        result = std::round(value * inverse(scale) + shift);
        break;
      case Rounding::divide_from_zero:
        result = std::round(value / scale + shift);
        break;
    }
    if (std::isnan(result)) result = shift;  // 0 / 0
    // Also keeps the bits of unsigned integers of 16 bits.
    return static_cast<std::int16_t>(static_cast<std::int32_t>(
        std::clamp(result, static_cast<float>(scheme.clip_low), static_cast<float>(scheme.clip_high))));
  }

  static float inverse(float scale) { return scale == 0 ? 0 : 1 / scale; }
};

void append(std::string& to, std::int16_t value, std::size_t size) {
  to.append(reinterpret_cast<const char*>(&value), size);  // little-endian
}

// Returns two numbers in each byte; a last one alone gets the padding.
std::string packed(std::span<const std::int16_t> halves, int padding = 0) {
  std::string bytes((halves.size() + 1) / 2, '\0');
  if (halves.size() % 2 == 1) bytes.back() = static_cast<char>(padding << 4);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    bytes[i / 2] = static_cast<char>(bytes[i / 2] | (halves[i] & 0xf) << (i % 2 * 4));
  }
  return bytes;
}

std::string plain(std::span<const std::int16_t> values, std::size_t size) {
  std::string bytes;
  bytes.reserve(values.size() * size);
  for (const std::int16_t value : values) append(bytes, value, size);
  return bytes;
}

}  // namespace

GroupShape::GroupShape(const Groups& groups, const std::vector<std::int64_t>& dims) {
  const auto axis = dims.begin() + std::clamp<std::int64_t>(groups.axis, 0, static_cast<std::int64_t>(dims.size()));
  if (groups.kind == Groups::Kind::tensor || axis == dims.end()) {
    length = product(dims.begin(), dims.end());
    block = std::max<std::int64_t>(length, 1);
    is_shared = true;
    return;
  }
  outer = product(dims.begin(), axis);
  length = *axis;
  inner = product(axis + 1, dims.end());
  is_shared = groups.kind == Groups::Kind::channel;
  block = is_shared ? 1 : std::max<std::int64_t>(groups.block, 1);
}

std::vector<Range> group_ranges(const Numbers& numbers, const Groups& groups) {
  const GroupShape shape(groups, numbers.dims);
  std::vector<Range> found(static_cast<std::size_t>(shape.count()));
  for_each_element(shape, [&](std::size_t element, std::size_t group) {
    const float value = numbers.values[element];
    Range& range = found[group];
    if (value < range.least) range.least = value;
    if (value > range.largest) range.largest = value;
  });
  return found;
}

GroupScales group_scales(const std::vector<Range>& ranges, const Scheme& scheme) {
  GroupScales result;
  for (const Range& range : ranges) {
    float scale = scale_of(range, scheme);
    const bool is_too_small =
        scale < std::numeric_limits<float>::min() && scheme.scale_rule == ScaleRule::range_in_double;
    if (is_too_small) {
      result.scales.push_back(1);
      result.zeros.push_back(0);
      continue;
    }
    const std::int32_t zero = zero_of(range, scale, scheme);
    if (scheme.half_scales) scale = from_float16_bits(program::float16_bits(scale));
    result.scales.push_back(scale);
    result.zeros.push_back(zero);
  }
  return result;
}

std::vector<std::int16_t> integers(const Numbers& numbers, const Scheme& scheme, const GroupScales& groups) {
  std::vector<std::int16_t> result(numbers.values.size());
  const Quantiser quantiser{scheme};
  for_each_element(GroupShape(scheme.groups, numbers.dims), [&](std::size_t element, std::size_t group) {
    result[element] = quantiser(numbers.values[element], groups.scales[group], groups.zeros[group]);
  });
  return result;
}

std::uint8_t equal_roundings(const Numbers& numbers, const Scheme& scheme, const GroupScales& groups) {
  std::array<Scheme, rounding_count> others;
  others.fill(scheme);
  for (std::size_t i = 0; i < rounding_count; ++i) others[i].rounding = static_cast<Rounding>(i);
  unsigned equal = (1U << rounding_count) - 1;
  for_each_element(GroupShape(scheme.groups, numbers.dims), [&](std::size_t element, std::size_t group) {
    const float value = numbers.values[element], scale = groups.scales[group];
    const float exact = std::abs(value / scale);
    constexpr float halfway = 1e-4F;  // above the rounding of a quotient and of its sum with a zero point
    if (!(std::abs(exact - std::trunc(exact) - 0.5F) < halfway * std::max(1.0F, exact / 16))) return;
    const std::int16_t own = Quantiser{scheme}(value, scale, groups.zeros[group]);
    for (std::size_t i = 0; i < rounding_count; ++i) {
      if (Quantiser{others[i]}(value, scale, groups.zeros[group]) != own) equal &= ~(1U << i);
    }
  });
  return static_cast<std::uint8_t>(equal);
}

std::string stored_integers(const Numbers& numbers, const Scheme& scheme, const GroupScales& groups) {
  const std::vector<std::int16_t> all = integers(numbers, scheme, groups);
  if (scheme.layout == Layout::plain) return plain(all, scheme.bits > 8 ? 2 : 1);
  if (scheme.layout == Layout::packed) return packed(all);
  const GroupShape shape(scheme.groups, numbers.dims);
  std::string bytes;
  std::vector<std::int16_t> block(static_cast<std::size_t>(shape.block));
  for (std::int64_t row = 0; row < shape.outer; ++row) {
    for (std::int64_t first = 0; first < shape.length; first += shape.block) {
      const std::int64_t size = std::min(shape.block, shape.length - first);
      const auto begin = all.begin() + row * shape.length + first;
      std::copy(begin, begin + size, block.begin());
      const std::int32_t zero =
          scheme.pads_with_zero_points ? groups.zeros[static_cast<std::size_t>(shape.group(row, first, 0))] : 0;
      std::fill(block.begin() + size, block.end(), static_cast<std::int16_t>(zero));
      bytes += scheme.bits == 4 ? packed(block) : plain(block, 1);
    }
  }
  return bytes;
}

std::string stored_zeros(const GroupScales& groups, const Scheme& scheme, std::int64_t rows) {
  const std::vector<std::int16_t> zeros(groups.zeros.begin(), groups.zeros.end());
  if (scheme.bits > 4 || scheme.layout == Layout::plain) return plain(zeros, scheme.bits > 8 ? 2 : 1);
  if (scheme.layout == Layout::packed) return packed(zeros);
  std::string bytes;
  const std::size_t in_row = zeros.size() / static_cast<std::size_t>(std::max<std::int64_t>(rows, 1));
  for (std::size_t at = 0; in_row > 0 && at < zeros.size(); at += in_row) {
    bytes += packed(std::span(zeros).subspan(at, in_row), scheme.zero_padding);
  }
  return bytes;
}

std::string stored_scales(const GroupScales& groups, const Scheme& scheme) {
  std::string bytes;
  for (const float scale : groups.scales) {
    if (scheme.half_scales) {
      const std::uint16_t bits = program::float16_bits(scale);
      bytes.append(reinterpret_cast<const char*>(&bits), sizeof bits);
    } else {
      bytes.append(reinterpret_cast<const char*>(&scale), sizeof scale);
    }
  }
  return bytes;
}

}  // namespace whence::derivation
