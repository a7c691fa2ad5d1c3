// Reads and creates small constant tensors: elements as numbers, scalars, casts. Used for arguments, promotion of
// Python scalars and constant folding. Supports real dtypes up to 64 bits; not float8 and complex (false / nullopt).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schema/tensor_data.h"

namespace whence::program {

bool has_number_form(DType dtype);  // bool, integers, float16, bfloat16, float32, float64

// The elements of a tensor as numbers, in row-major order. Refers to the tensor, which must outlive it.
class Elements {
 public:
  // Returns nullopt if the dtype has no number form, or if the bytes are not in memory or too few for the shape.
  static std::optional<Elements> of(const TensorData& data);

  std::size_t size() const { return size_; }
  // Requires index < size(). Reading a floating-point element as an integer truncates like a C cast; NaN and values out
  // of range give 0.
  double number(std::size_t index) const;
  std::int64_t integer(std::size_t index) const;

 private:
  Elements(DType dtype, const std::byte* data, std::size_t size) : dtype_(dtype), data_(data), size_(size) {}

  DType dtype_;
  const std::byte* data_;
  std::size_t size_;
};

// Returns the element of a tensor with exactly one, if it is in memory.
std::optional<double> single_number(const TensorData& data);

TensorData integer_scalar(std::int64_t value, DType dtype);          // shape {}
TensorData number_scalar(double value, DType dtype);                 // shape {}
TensorData integer_vector(const std::vector<std::int64_t>& values);  // int64, shape {n}

// Casts the elements to `dtype` like torch's .to(). Returns nullopt if either dtype has no number form or the elements
// are not in memory.
std::optional<TensorData> cast_tensor(const TensorData& data, DType dtype);

// Round to nearest even, as PyTorch and IEEE 754 do.
std::uint16_t float16_bits(float value);
std::uint16_t bfloat16_bits(float value);

}  // namespace whence::program
