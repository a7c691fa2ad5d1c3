// Reading and making small constant tensors: elements as numbers, scalars, casts. Used for arguments, promotion of
// Python scalars and constant folding. Real dtypes up to 64 bits; float8 and complex are out of reach (false /
// nullopt).
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
  // Nothing when the dtype has no number form, or the bytes are not in memory or fewer than the shape asks for.
  static std::optional<Elements> of(const TensorData& data);

  std::size_t size() const { return size_; }
  // Requires index < size(). Integer reads of floating elements truncate as a C cast does, with NaN and values out of
  // range giving 0.
  double number(std::size_t index) const;
  std::int64_t integer(std::size_t index) const;

 private:
  Elements(DType dtype, const std::byte* data, std::size_t size) : dtype_(dtype), data_(data), size_(size) {}

  DType dtype_;
  const std::byte* data_;
  std::size_t size_;
};

// The one element of a tensor that has exactly one, where it is in memory.
std::optional<double> single_number(const TensorData& data);

TensorData integer_scalar(std::int64_t value, DType dtype);          // shape {}
TensorData number_scalar(double value, DType dtype);                 // shape {}
TensorData integer_vector(const std::vector<std::int64_t>& values);  // int64, shape {n}

// The same elements as `dtype`, as torch's .to() gives them. Nothing when either dtype has no number form, or the
// elements are not in memory.
std::optional<TensorData> cast_tensor(const TensorData& data, DType dtype);

// Rounding to nearest even, as PyTorch and IEEE 754 do.
std::uint16_t float16_bits(float value);
std::uint16_t bfloat16_bits(float value);

}  // namespace whence::program
