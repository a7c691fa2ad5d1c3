// Scheme: how a tool quantises a tensor of real numbers: the integers' range, the groups that share a scale, and the
// arithmetic of scale, zero point and rounding. Each tool differs in the last bit, so the arithmetic has names.
//
// Sources: onnxruntime/python/tools/quantization/quant_utils.py (range), onnxruntime/core/mlas/lib/q4_dq.cpp (blocks),
// torch/ao/quantization/observer.py, nncf/quantization/algorithms/weight_compression.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace whence::derivation {

// The elements that share a scale. The tensor is a matrix [outer, axis, inner] around one axis.
struct Groups {
  enum class Kind : std::uint8_t { tensor, channel, block };
  Kind kind = Kind::tensor;
  std::int64_t axis = 0;   // channel: a scale for each index of this axis; block: this axis is divided
  std::int64_t block = 0;  // elements of a block along the axis
};

// How a scale follows from the smallest and largest element of its group.
enum class ScaleRule : std::uint8_t {
  range_in_double,  // (largest - smallest) / (high - low) in double precision, then rounded
  range_in_float,   // the same in single precision
  largest,          // largest absolute value / high
  signed_largest,   // the element with the largest absolute value, with its sign, / low
};

enum class Rounding : std::uint8_t {
  divide_to_even,          // round(x / scale) to even, + zero point
  multiply_to_even,        // round(x * (1 / scale)) to even, + zero point
  multiply_from_zero,      // round(x * (1 / scale) + zero point) away from zero
  divide_from_zero,        // round(x / scale + zero point) away from zero
  divide_shifted_to_even,  // round(x / scale + zero point) to even
  // The same as unsigned integers, from which half their range is then subtracted.
  divide_unsigned_to_even,
};

inline constexpr std::size_t rounding_count = 6;

// How the integers are stored.
enum class Layout : std::uint8_t {
  plain,   // one or two bytes each, in the tensor's order
  packed,  // four bits each, two in a byte, the lower half first
  n_bits,  // MatMulNBits: rows of blocks, each block begins at a byte; zero points of a row begin at a byte
};

struct Scheme {
  int bits = 8;
  bool is_signed = true;       // of the stored integers
  int low = -127, high = 127;  // the range that defines the scale
  int clip_low = -128, clip_high = 127;
  bool is_symmetric = true;
  Groups groups;
  ScaleRule scale_rule = ScaleRule::range_in_double;
  std::uint8_t equal_rules = 0;  // bit i is set if ScaleRule(i) gives the same scales for this tensor
  Rounding rounding = Rounding::divide_to_even;
  std::uint8_t equal_roundings = 0;  // bit i is set if Rounding(i) gives the same integers for this tensor
  Layout layout = Layout::plain;
  bool half_scales = false;  // scales are float16
  // Layout::n_bits: the integers after the end of a row are zero points instead of 0; the last half byte of a row of
  // zero points.
  bool pads_with_zero_points = false;
  int zero_padding = 0;

  // Returns true if the rule gives the scales of this tensor.
  bool follows(ScaleRule rule) const { return (equal_rules >> static_cast<unsigned>(rule) & 1U) != 0; }
};

// Returns the scheme as words: "int8 symmetric per channel of axis 0".
std::string to_text(const Scheme& scheme);

}  // namespace whence::derivation
