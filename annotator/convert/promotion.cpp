// Type promotion between tensors and Python numbers, as PyTorch does it (ATen/native/TypeProperties.cpp, 2.13): tensors
// with axes decide first, then 0-d tensors, then Python numbers. A later group counts only if its category is higher
// (bool < integer < floating).
#include <algorithm>

#include "annotator/convert/convert.h"
#include "annotator/convert/ctx.h"

namespace whence::convert {

namespace {

DType promote_known(DType a, DType b) {
  if (a == DType::undefined) return b;
  return b == DType::undefined ? a : promote(a, b);
}

DType combine(DType higher, DType lower) {
  if (higher == DType::undefined) return lower;
  if (is_floating(higher) || is_complex(higher) || lower == DType::undefined) return higher;
  return higher == DType::boolean || is_floating(lower) || is_complex(lower) ? promote_known(higher, lower) : higher;
}

}  // namespace

DType Ctx::promoted_dtype(const std::vector<Val>& operands) const {
  DType with_axes = DType::undefined, zero_rank = DType::undefined, wrapped = DType::undefined;
  for (const Val operand : operands) {
    const graph::GraphValue& value = session_.graph().values[operand.id];
    if (std::find(wrapped_.begin(), wrapped_.end(), operand) != wrapped_.end()) {
      wrapped = promote_known(wrapped, value.dtype == DType::float64 ? DType::float32 : value.dtype);
    } else if (value.dims && value.dims->empty()) {
      zero_rank = promote_known(zero_rank, value.dtype);
    } else {
      with_axes = promote_known(with_axes, value.dtype);
    }
  }
  return combine(with_axes, combine(zero_rank, wrapped));
}

std::pair<Val, Val> Ctx::promoted(Val a, Val b) {
  const DType common = promoted_dtype({a, b});
  if (common == DType::undefined) {
    refuse("the dtype of its operands is unknown", "pass example inputs with --input or --inputs");
  }
  return {cast(a, common), cast(b, common)};
}

}  // namespace whence::convert
