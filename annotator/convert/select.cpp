// ONNX Where accepts any dtype, but runtimes have no kernels for booleans and narrow integers. Booleans are selected by
// logic operators, narrow integers in 32 bits.
#include "annotator/convert/select.h"

#include "annotator/program/tensor_values.h"

namespace whence::convert {

namespace {

// Returns the value of a boolean scalar constant.
std::optional<bool> constant_flag(Ctx& c, Val value) {
  const TensorData* data = c.constant(value);
  if (!data || !data->shape.empty()) return std::nullopt;
  return single_integer(*data) != 0;
}

Val negated(Ctx& c, Val value) { return c.emit("Not", {value}); }

Val select_flag(Ctx& c, Val condition, Val a, Val b) {
  if (const auto flag = constant_flag(c, a)) {
    return *flag ? c.emit("Or", {condition, b}) : c.emit("And", {negated(c, condition), b});
  }
  if (const auto flag = constant_flag(c, b)) {
    return *flag ? c.emit("Or", {negated(c, condition), a}) : c.emit("And", {condition, a});
  }
  return c.emit("Or", {c.emit("And", {condition, a}), c.emit("And", {negated(c, condition), b})});
}

}  // namespace

Val select(Ctx& c, Val condition, Val a, Val b) {
  const DType dtype = c.dtype(a);
  if (dtype == DType::boolean) return select_flag(c, condition, a, b);
  const bool narrow = is_integral(dtype) && size_of(dtype) < 4 && dtype != DType::uint8;
  if (!narrow) return c.emit("Where", {condition, a, b});
  return c.emit("Where", {condition, c.cast(a, DType::int32), c.cast(b, DType::int32)});
}

}  // namespace whence::convert
