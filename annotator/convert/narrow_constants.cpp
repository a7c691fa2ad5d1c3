#include "annotator/convert/narrow_constants.h"

#include <cmath>

#include "annotator/program/number_range.h"
#include "annotator/program/tensor_values.h"

namespace whence::convert {
namespace {

bool outside(Ctx& c, Val value, DType dtype) {
  constexpr double smallest_half = 0x1p-14;  // smaller numbers have fewer digits; bfloat16 has the exponents of float32
  const TensorData* data = c.constant(value);
  const auto number = data == nullptr ? std::nullopt : program::single_number(*data);
  if (!number || !std::isfinite(*number) || *number == 0) return false;
  const double size = std::abs(*number);
  return size > program::greatest_finite(dtype) || (dtype == DType::float16 && size < smallest_half);
}

}  // namespace

DType dtype_for_numbers(Ctx& c, DType dtype, Val x, Val y) {
  if (dtype != DType::float16 && dtype != DType::bfloat16) return dtype;
  return outside(c, x, dtype) || outside(c, y, dtype) ? DType::float32 : dtype;
}

}  // namespace whence::convert
