// The size limit for constant folding: how large a constant may be that replaces a computation. lower/ applies it to
// results that PyTorch computed while recording, simplify/ to ONNX nodes, and converters to copies of constants.
//
// Folding must not make the file much larger. int8 weights with their scales, packed int4 weights, and tables that are
// computed from a few numbers stay as stored, and nodes compute the result. A result that is small compared with the
// model's weights may be larger than its inputs, because it saves nodes; this exception excludes quantised and packed
// weights.
#pragma once

#include <algorithm>
#include <cstdint>

#include "schema/tensor_data.h"

namespace whence {

// The constants that a computation reads.
struct FoldedConstants {
  std::uint64_t model_bytes = 0;      // all constants of the model
  std::uint64_t removed_bytes = 0;    // constants that nothing else reads, which folding removes
  bool holds_tensors = false;         // some constants have more than eight elements
  bool holds_packed_weights = false;  // some of these have narrow elements: quantised or packed weights

  // Adds a constant; folding removes `bytes` of it. Up to eight numbers are a shape, axes or scales, not a tensor.
  void add(const TensorData& data, std::uint64_t bytes) {
    constexpr std::int64_t max_numbers = 8;
    removed_bytes += bytes;
    if (data.element_count() <= max_numbers) return;
    holds_tensors = true;
    const std::size_t width = size_of(data.dtype);
    holds_packed_weights |=
        is_integral(data.dtype) ? width < sizeof(std::int64_t) : is_floating(data.dtype) && width == 1;
  }
};

inline constexpr std::uint64_t always_folded = 64;  // bytes: eight integers
inline constexpr std::uint64_t min_small = 512;     // bytes: the size of a node with its metadata

inline std::uint64_t max_folded_bytes(const FoldedConstants& from) {
  // small_part: the share of the model that counts as small. made_of_numbers: masks and positions, computed from
  // numbers.
  constexpr std::uint64_t small_part = 16, max_small = 8192, made_of_numbers = 65536;
  const std::uint64_t small = std::clamp(from.model_bytes / small_part, min_small, max_small);
  const std::uint64_t allowed = from.holds_packed_weights ? always_folded
                                : from.holds_tensors      ? small
                                                          : made_of_numbers;
  return std::max(allowed, from.removed_bytes);
}

// Returns true if a constant of `bytes` may be computed from `data` in a model of any size, even if other nodes read
// `data` too.
inline bool may_store_additionally(const TensorData& data, std::uint64_t bytes) {
  FoldedConstants from;
  from.add(data, 0);
  return bytes <= max_folded_bytes(from);
}

}  // namespace whence
