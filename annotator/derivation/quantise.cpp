#include "annotator/derivation/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <type_traits>

#include "annotator/program/tensor_values.h"
#include "schema/small_floats.h"

namespace whence::derivation {
namespace {

std::int64_t product(auto first, auto last) { return std::accumulate(first, last, std::int64_t{1}, std::multiplies()); }

// Consecutive elements: of one group, or of one group each.
struct RunOfElements {
  std::size_t first = 0, count = 0;
  std::size_t group = 0;  // of the first one
};
using OneGroup = std::integral_constant<std::size_t, 0>;
using GroupEach = std::integral_constant<std::size_t, 1>;

// Calls visit(run, stride) for all elements in row-major order. `stride`: of groups, OneGroup or GroupEach.
template <class Visit>
void for_each_run(const GroupShape& shape, Visit&& visit) {
  std::size_t element = 0;
  const auto add = [&](std::int64_t count, std::int64_t group, auto stride) {
    visit(RunOfElements{element, static_cast<std::size_t>(count), static_cast<std::size_t>(group)}, stride);
    element += static_cast<std::size_t>(count);
  };
  for (std::int64_t o = 0; o < shape.outer; ++o) {
    if (shape.is_shared) {
      for (std::int64_t at = 0; at < shape.length; at += shape.block)
        add(std::min(shape.block, shape.length - at) * shape.inner, at / shape.block, OneGroup());
    } else {
      for (std::int64_t at = 0; at < shape.length; ++at) add(shape.inner, shape.group(o, at, 0), GroupEach());
    }
  }
}

// Returns the range of many numbers. It has several partial results, because a comparison must not wait for the last.
Range range_of(std::span<const float> values) {
  constexpr std::size_t count = 16;
  std::array<float, count> least{}, largest{};
  std::size_t i = 0;
  for (; i + count <= values.size(); i += count) {
    for (std::size_t j = 0; j < count; ++j) {
      const float value = values[i + j];
      least[j] = value < least[j] ? value : least[j];
      largest[j] = value > largest[j] ? value : largest[j];
    }
  }
  Range range;
  for (std::size_t j = 0; j < count; ++j) range.add({least[j], largest[j]});
  for (; i < values.size(); ++i) range.add({values[i], values[i]});
  return range;
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

// Rounds to the nearest integer, halves to even. Numbers from 2^22 on stay only about as large, which no integer of 16
// bits shows. Unlike std::nearbyint(), it is no call on processors of the baseline.
float to_even(float number) {
  constexpr float shift = 12582912;  // 1.5 * 2^23: its sum with the number has no bits for a fraction
  return (number + shift) - shift;
}

float inverse(float scale) { return scale == 0 ? 0 : 1 / scale; }

// The numbers of a scheme that rounding one number needs, so that loops keep them in registers.
struct Limits {
  float low = 0, high = 0;
  float half = 0;  // of the range of signed integers

  explicit Limits(const Scheme& scheme)
      : low(static_cast<float>(scheme.clip_low)),
        high(static_cast<float>(scheme.clip_high)),
        half(static_cast<float>(scheme.is_signed ? 1 << (scheme.bits - 1) : 0)) {}
};

template <Rounding rounding>
[[gnu::always_inline]] inline std::int16_t quantised(float value, float scale, std::int32_t zero, Limits limits) {
  const auto shift = static_cast<float>(zero);
  float result = 0;
  if constexpr (rounding == Rounding::divide_to_even) {
    result = to_even(value / scale) + shift;
  } else if constexpr (rounding == Rounding::multiply_to_even) {
    result = to_even(value * inverse(scale)) + shift;
  } else if constexpr (rounding == Rounding::divide_shifted_to_even) {
    result = to_even(value / scale + shift);
  } else if constexpr (rounding == Rounding::divide_unsigned_to_even) {
    result = to_even(value / scale + (shift + limits.half)) - limits.half;
  } else if constexpr (rounding == Rounding::multiply_from_zero) {
    result = std::round(value * inverse(scale) + shift);
  } else {
    static_assert(rounding == Rounding::divide_from_zero);
    result = std::round(value / scale + shift);
  }
  result = result == result ? result : shift;  // 0 / 0
  result = result < limits.low ? limits.low : result;
  result = result > limits.high ? limits.high : result;
  // Also keeps the bits of unsigned integers of 16 bits.
  return static_cast<std::int16_t>(static_cast<std::int32_t>(result));
}

// Calls visit(std::integral_constant<Rounding, rounding>).
template <class Visit>
auto with_rounding(Rounding rounding, Visit&& visit) {
  switch (rounding) {
    case Rounding::divide_to_even:
      return visit(std::integral_constant<Rounding, Rounding::divide_to_even>());
    case Rounding::multiply_to_even:
      return visit(std::integral_constant<Rounding, Rounding::multiply_to_even>());
    case Rounding::divide_shifted_to_even:
      return visit(std::integral_constant<Rounding, Rounding::divide_shifted_to_even>());
    case Rounding::divide_unsigned_to_even:
      return visit(std::integral_constant<Rounding, Rounding::divide_unsigned_to_even>());
    case Rounding::multiply_from_zero:
      return visit(std::integral_constant<Rounding, Rounding::multiply_from_zero>());
    case Rounding::divide_from_zero:
      break;
  }
  return visit(std::integral_constant<Rounding, Rounding::divide_from_zero>());
}

std::int16_t quantised(float value, float scale, std::int32_t zero, const Scheme& scheme) {
  return with_rounding(scheme.rounding,
                       [&](auto rounding) { return quantised<rounding()>(value, scale, zero, Limits(scheme)); });
}

// Returns true for a number so near to the middle of two integers that roundings may differ.
[[gnu::always_inline]] inline bool is_halfway(float value, float scale) {
  constexpr float halfway = 1e-4F;  // above the rounding of a quotient and of its sum with a zero point
  const float exact = std::abs(value / scale), wide = exact * (halfway / 16);
  return 0.5F - std::abs(exact - to_even(exact)) < (wide > halfway ? wide : halfway);
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

// Writes the integer of each number.
template <class Integer>
void quantise(const Numbers& numbers, const Scheme& scheme, const GroupScales& groups, Integer* to) {
  const Limits limits(scheme);
  with_rounding(scheme.rounding, [&](auto rounding) {
    for_each_run(GroupShape(scheme.groups, numbers.dims), [&](const RunOfElements& run, auto stride) {
      const float* const values = numbers.values.data() + run.first;
      Integer* const integers = to + run.first;
      const float* const scales = groups.scales.data() + run.group;
      const std::int32_t* const zeros = groups.zeros.data() + run.group;
      // Bytes may alias scales, which would be read again for each number.
      const float scale = *scales;
      const std::int32_t zero = *zeros;
      for (std::size_t i = 0; i < run.count; ++i) {
        const bool is_first = stride == OneGroup();
        integers[i] = static_cast<Integer>(
            quantised<rounding()>(values[i], is_first ? scale : scales[i], is_first ? zero : zeros[i], limits));
      }
    });
  });
}

std::string plain(std::span<const std::int16_t> values, std::size_t size) {
  std::string bytes(values.size() * size, '\0');
  if (size == 1) {
    std::ranges::transform(values, bytes.begin(), [](std::int16_t value) { return static_cast<char>(value); });
  } else {
    std::memcpy(bytes.data(), values.data(), bytes.size());  // little-endian
  }
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
  for_each_run(shape, [&](const RunOfElements& run, auto stride) {
    const auto values = numbers.values.subspan(run.first, run.count);
    if constexpr (stride == OneGroup()) {
      found[run.group].add(range_of(values));
    } else {
      for (std::size_t i = 0; i < run.count; ++i) found[run.group + i].add({values[i], values[i]});
    }
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
  quantise(numbers, scheme, groups, result.data());
  return result;
}

std::uint8_t equal_roundings(const Numbers& numbers, const Scheme& scheme, const GroupScales& groups) {
  std::array<Scheme, rounding_count> others;
  others.fill(scheme);
  for (std::size_t i = 0; i < rounding_count; ++i) others[i].rounding = static_cast<Rounding>(i);
  unsigned equal = (1U << rounding_count) - 1;
  const auto compare = [&](float value, std::size_t group) {
    const float scale = groups.scales[group];
    if (!is_halfway(value, scale)) return;
    const std::int16_t own = quantised(value, scale, groups.zeros[group], scheme);
    for (std::size_t i = 0; i < rounding_count; ++i) {
      if (quantised(value, scale, groups.zeros[group], others[i]) != own) equal &= ~(1U << i);
    }
  };
  for_each_run(GroupShape(scheme.groups, numbers.dims), [&](const RunOfElements& run, auto stride) {
    constexpr std::size_t most = 64;  // few enough that mostly none of them is halfway
    for (std::size_t first = 0; first < run.count; first += most) {
      const float* const values = numbers.values.data() + run.first + first;
      const std::size_t group = run.group + first * stride, count = std::min(most, run.count - first);
      const float* const scales = groups.scales.data() + group;
      int found = 0;
      for (std::size_t i = 0; i < count; ++i) found |= static_cast<int>(is_halfway(values[i], scales[i * stride]));
      for (std::size_t i = 0; found != 0 && i < count; ++i) compare(values[i], group + i * stride);
    }
  });
  return static_cast<std::uint8_t>(equal);
}

std::string stored_integers(const Numbers& numbers, const Scheme& scheme, const GroupScales& groups) {
  if (scheme.layout == Layout::plain && scheme.bits <= 8) {
    std::string bytes(numbers.values.size(), '\0');
    quantise(numbers, scheme, groups, bytes.data());
    return bytes;
  }
  const std::vector<std::int16_t> all = integers(numbers, scheme, groups);
  if (scheme.layout == Layout::plain) return plain(all, 2);
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
