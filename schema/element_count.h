// The product of a tensor's sizes, as files from others state them, and sums of such numbers.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace whence {

// Times the bytes of an element it still fits 64 bits.
inline constexpr std::int64_t most_elements = std::int64_t{1} << 58;

// 0 where a size is negative; `most_elements` for any larger product.
inline std::int64_t element_count(std::span<const std::int64_t> sizes) {
  std::int64_t count = 1;
  bool fits = true;
  for (const std::int64_t size : sizes) {
    if (size <= 0) return 0;
    fits = fits && !__builtin_mul_overflow(count, size, &count) && count <= most_elements;
  }
  return fits ? count : most_elements;
}

// Adds two numbers that are not negative; a sum that does not fit is the greatest that does.
inline std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

}  // namespace whence
