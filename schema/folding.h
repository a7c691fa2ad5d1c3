// The one rule of constant folding: how large a constant may be that takes the place of a computation. Asked by lower/
// for results that PyTorch computed while recording, and by simplify/ for ONNX nodes; converters ask for copies.
//
// A file does not grow by folding: int8 weights with their scales, packed int4, and tables that a few stored numbers
// span stay as they are stored, and nodes compute the rest. What is small beside the model's weights may grow, since it
// saves nodes; quantised and packed weights may not.
#pragma once

#include <algorithm>
#include <cstdint>

#include "schema/tensor_data.h"

namespace whence {

// The constants that a computation reads.
struct FoldedConstants {
  std::uint64_t model_bytes = 0;    // everything that the model stores
  std::uint64_t bytes_that_go = 0;  // constants that nothing else reads
  bool holds_tensors = false;       // some are tensors, not a few numbers
  bool holds_codes = false;         // some are tensors of narrow numbers: quantised or packed weights

  // Adds a constant, of which `bytes` go. Eight numbers are a shape, axes or scales, and are no tensor.
  void add(const TensorData& data, std::uint64_t bytes) {
    constexpr std::int64_t most_numbers = 8;
    bytes_that_go += bytes;
    if (data.element_count() <= most_numbers) return;
    holds_tensors = true;
    const std::size_t width = size_of(data.dtype);
    holds_codes |= is_integral(data.dtype) ? width < sizeof(std::int64_t) : is_floating(data.dtype) && width == 1;
  }
};

inline constexpr std::uint64_t always_folded = 64;  // bytes: eight integers
inline constexpr std::uint64_t always_small = 512;  // bytes: a node and its metadata take as many

inline std::uint64_t most_bytes_folded(const FoldedConstants& from) {
  // A part of the model, and masks and positions, of which the model stores nothing.
  constexpr std::uint64_t small_part = 16, most_small = 8192, made_of_numbers = 65536;
  const std::uint64_t small = std::clamp(from.model_bytes / small_part, always_small, most_small);
  const std::uint64_t allowed = from.holds_codes ? always_folded : from.holds_tensors ? small : made_of_numbers;
  return std::max(allowed, from.bytes_that_go);
}

// True if a constant of `bytes` may be made of `data` whatever else reads it, in a model of any size.
inline bool may_be_stored_besides(const TensorData& data, std::uint64_t bytes) {
  FoldedConstants from;
  from.add(data, 0);
  return bytes <= most_bytes_folded(from);
}

}  // namespace whence
