// The largest finite numbers of floating-point dtypes.
#pragma once

#include <limits>

#include "schema/dtype.h"

namespace whence::program {

// Supports float16, bfloat16, float32 and float64.
inline double greatest_finite(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return 65504;
    case DType::bfloat16:
      return 0x1.FEp127;
    case DType::float64:
      return std::numeric_limits<double>::max();
    default:
      return double{std::numeric_limits<float>::max()};
  }
}

}  // namespace whence::program
