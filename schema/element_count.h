// Overflow-safe products and sums of sizes from untrusted files.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace whence {

// The limit on element counts: multiplied by the size of an element, it still fits into 64 bits.
inline constexpr std::int64_t max_elements = std::int64_t{1} << 58;

// Returns the product, 0 if a size is 0 or negative, or `max_elements` for a larger product.
inline std::int64_t element_count(std::span<const std::int64_t> sizes) {
  std::int64_t count = 1;
  bool fits = true;
  for (const std::int64_t size : sizes) {
    if (size <= 0) return 0;
    fits = fits && !__builtin_mul_overflow(count, size, &count) && count <= max_elements;
  }
  return fits ? count : max_elements;
}

// Adds two non-negative numbers and saturates on overflow.
inline std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

}  // namespace whence
