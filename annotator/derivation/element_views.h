// Views of a tensor's bytes, which must be in memory; and a tensor of numbers.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/tensor_data.h"

namespace whence::derivation {

inline std::string_view text_of(const TensorData& data) { return as_text(data.bytes.in_memory().value()); }

// Requires float32.
inline std::span<const float> floats_of(const TensorData& data) {
  const auto bytes = data.bytes.in_memory().value();
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// Returns a tensor with a copy of the numbers.
inline TensorData of_floats(const std::vector<float>& numbers, std::vector<std::int64_t> dims) {
  return {DType::float32, std::move(dims), Bytes::copy_of(numbers.data(), numbers.size() * sizeof(float))};
}

}  // namespace whence::derivation
