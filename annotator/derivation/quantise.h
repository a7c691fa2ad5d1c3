// Quantises real numbers by a scheme: the scale and zero point of each group, and the integers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "annotator/derivation/scheme.h"

namespace whence::derivation {

// Real numbers in row-major order. Refers to the numbers.
struct Numbers {
  std::span<const float> values;
  std::vector<std::int64_t> dims;
};

// The position of an element among the groups: the tensor as [outer, length, inner] around the scheme's axis.
struct GroupShape {
  std::int64_t outer = 1, length = 1, inner = 1;
  std::int64_t block = 1;  // elements along the axis that share a group
  bool is_shared = false;  // groups do not depend on outer and inner

  GroupShape(const Groups& groups, const std::vector<std::int64_t>& dims);
  std::int64_t blocks() const { return (length + block - 1) / block; }
  std::int64_t count() const { return is_shared ? blocks() : outer * blocks() * inner; }
  std::int64_t group(std::int64_t o, std::int64_t at, std::int64_t i) const {
    return is_shared ? at / block : (o * blocks() + at / block) * inner + i;
  }
  // Returns the group of an element by its position in row-major order.
  std::size_t group_of(std::int64_t element) const {
    return static_cast<std::size_t>(group(element / inner / length, element / inner % length, element % inner));
  }
};

struct GroupScales {
  std::vector<float> scales;
  std::vector<std::int32_t> zeros;
};

// The smallest and largest element of a group, or 0.
struct Range {
  float least = 0, largest = 0;

  void add(const Range& other) {
    if (other.least < least) least = other.least;
    if (other.largest > largest) largest = other.largest;
  }
};
std::vector<Range> group_ranges(const Numbers& numbers, const Groups& groups);

// Returns scale and zero point of each group.
GroupScales group_scales(const std::vector<Range>& ranges, const Scheme& scheme);

// Returns the integers of all elements with these scales and zero points, in row-major order and before packing.
std::vector<std::int16_t> integers(const Numbers& numbers, const Scheme& scheme, const GroupScales& groups);

// Returns the roundings that give the same integers as the scheme's own, as Scheme::equal_roundings: they differ only
// where a number is halfway between two integers.
std::uint8_t equal_roundings(const Numbers& numbers, const Scheme& scheme, const GroupScales& groups);

// Returns the integers as the file stores them.
std::string stored_integers(const Numbers& numbers, const Scheme& scheme, const GroupScales& groups);
// `rows`: the number of rows of a matrix, whose zero points begin at a byte in Layout::n_bits.
std::string stored_zeros(const GroupScales& groups, const Scheme& scheme, std::int64_t rows);
std::string stored_scales(const GroupScales& groups, const Scheme& scheme);

}  // namespace whence::derivation
