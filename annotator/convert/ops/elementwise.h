// Converters for operators that correspond to one element-wise ONNX operator: direct<"Exp"> for aten::exp.
#pragma once

#include <cstddef>

#include "annotator/convert/ctx.h"
#include "annotator/program/tensor_values.h"

namespace whence::convert {

// An ONNX operator's name as a template argument.
struct OpName {
  char text[24] = {};
  template <std::size_t n>
  consteval OpName(const char (&name)[n]) {
    static_assert(n <= sizeof(text));
    for (std::size_t i = 0; i < n; ++i) text[i] = name[i];
  }
};

// `self` in the dtype that PyTorch computes in, the result's (integers become float32 for exp, sigmoid, ...).
inline Val self_as_result(Ctx& c) { return c.cast(c.tensor("self"), c.output_dtype()); }

// y = op(self).
template <OpName op>
void direct(Ctx& c) {
  c.yield(c.emit(op.text, {self_as_result(c)}));
}

// x of `dtype` times the Scalar argument `factor`, which may be known only at run time; no node if it is 1.
inline Val times_scalar(Ctx& c, Val x, const char* factor, DType dtype) {
  const Val by = c.scalar(factor, dtype);
  const TensorData* known = c.constant(by);
  return known != nullptr && program::single_number(*known) == 1.0 ? x : c.emit("Mul", {x, by});
}

// ONNX Runtime has no arithmetic kernels for 8- and 16-bit integers. They are computed in 32 bits, and the cast back to
// the result's dtype wraps around as in PyTorch.
inline DType arithmetic_dtype(DType dtype) { return is_integral(dtype) && size_of(dtype) < 4 ? DType::int32 : dtype; }

}  // namespace whence::convert
