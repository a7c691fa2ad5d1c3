// Elements of constant tensors as numbers, and broadcasting of shapes, for the files of this folder. Two number types
// cover all dtypes: int64 for bool and integers up to int64, double for floating point. In double, +, -, *, / and sqrt
// on narrower dtypes round to the same bits as arithmetic in that dtype.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "annotator/program/tensor_values.h"
#include "schema/element_count.h"

namespace whence::simplify {

using Sizes = std::vector<std::int64_t>;

inline bool has_integer_form(DType dtype) {
  return dtype == DType::boolean || (is_integral(dtype) && dtype != DType::uint64);
}
inline bool has_floating_form(DType dtype) { return is_floating(dtype) && program::has_number_form(dtype); }

inline std::int64_t count_of(const Sizes& shape) { return element_count(shape); }

// Returns `axis` counted from the front; nullopt if it is out of range.
inline std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

// NumPy broadcasting, from the last axis on; nullopt if sizes differ and neither is 1.
inline std::optional<Sizes> broadcast(const Sizes& a, const Sizes& b) {
  Sizes shape(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    shape[shape.size() - 1 - i] = x == 1 ? y : x;
  }
  return shape;
}

// Returns the strides of a dense row-major tensor, in elements.
inline Sizes strides_of(const Sizes& shape) {
  Sizes strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Returns the strides that read `from` as the shape `to`, which it broadcasts to: 0 along repeated axes.
inline Sizes broadcast_strides(const Sizes& from, const Sizes& to) {
  const Sizes own = strides_of(from);
  Sizes strides(to.size(), 0);
  const std::size_t missing = to.size() - from.size();
  for (std::size_t i = 0; i < from.size(); ++i) strides[missing + i] = from[i] == 1 ? 0 : own[i];
  return strides;
}

// Calls visit(offset) for each position of `shape` in row-major order; a step along axis i moves by strides[i].
template <class Visit>
void for_each_offset(const Sizes& shape, const Sizes& strides, std::int64_t start, Visit&& visit) {
  const std::int64_t count = count_of(shape);
  if (count == 0) return;
  Sizes index(shape.size(), 0);
  std::int64_t offset = start;
  for (std::int64_t n = 0; n < count; ++n) {
    visit(offset);
    for (std::size_t i = shape.size(); i-- > 0;) {
      offset += strides[i];
      if (++index[i] < shape[i]) break;
      offset -= strides[i] * shape[i];
      index[i] = 0;
    }
  }
}

// Calls visit(index) for each position of `shape` in row-major order.
template <class Visit>
void for_each_index(const Sizes& shape, Visit&& visit) {
  Sizes index(shape.size(), 0);
  for (std::int64_t n = count_of(shape); n > 0; --n) {
    visit(index);
    for (std::size_t i = shape.size(); i > 0; --i) {
      if (++index[i - 1] < shape[i - 1]) break;
      index[i - 1] = 0;
    }
  }
}

template <class Number>  // std::int64_t or double
std::vector<Number> numbers_of(const TensorData& data) {
  const program::Elements elements = program::Elements::of(data).value();
  std::vector<Number> numbers(elements.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if constexpr (std::is_same_v<Number, double>) {
      numbers[i] = elements.number(i);
    } else {
      numbers[i] = elements.integer(i);
    }
  }
  return numbers;
}

// Rounds the numbers to `dtype`; integers wrap, as in C and in ONNX Runtime.
template <class Number>
std::optional<TensorData> tensor_of(DType dtype, Sizes shape, const std::vector<Number>& numbers) {
  const DType wide = std::is_same_v<Number, double> ? DType::float64 : DType::int64;
  TensorData data{wide, std::move(shape), Bytes::copy_of(numbers.data(), numbers.size() * sizeof(Number))};
  return program::cast_tensor(data, dtype);
}

}  // namespace whence::simplify
