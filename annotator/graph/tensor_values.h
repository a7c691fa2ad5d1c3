// Reading and making small constant tensors: elements as numbers, scalars, casts. Used for arguments, promotion of
// Python scalars and constant folding. Real dtypes up to 64 bits; float8 and complex are out of reach (false /
// nullopt).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schema/tensor_data.h"

namespace whence {

bool has_number_form(DType dtype);  // bool, integers, float16, bfloat16, float32, float64

// Element `index` in row-major order. Integer reads of floating elements truncate as a C cast does, with NaN and values
// out of range giving 0.
double number_at(const TensorData& data, std::size_t index);
std::int64_t integer_at(const TensorData& data, std::size_t index);

// The one element of a tensor that has exactly one.
std::optional<double> single_number(const TensorData& data);
std::optional<std::int64_t> single_integer(const TensorData& data);

TensorData integer_scalar(std::int64_t value, DType dtype);          // shape {}
TensorData number_scalar(double value, DType dtype);                 // shape {}
TensorData integer_vector(const std::vector<std::int64_t>& values);  // int64, shape {n}

// The same elements as `dtype`, as torch's .to() gives them. Nothing when either dtype has no number form.
std::optional<TensorData> cast_tensor(const TensorData& data, DType dtype);

// Rounding to nearest even, as PyTorch and IEEE 754 do.
std::uint16_t float16_bits(float value);
float from_float16_bits(std::uint16_t bits);
std::uint16_t bfloat16_bits(float value);
float from_bfloat16_bits(std::uint16_t bits);

}  // namespace whence
