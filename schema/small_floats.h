// Converts the 16-bit floating-point numbers of tensors to float, which is always exact.
#pragma once

#include <cstdint>

namespace whence {

float from_float16_bits(std::uint16_t bits);   // IEEE 754 binary16
float from_bfloat16_bits(std::uint16_t bits);  // the upper half of a float

}  // namespace whence
