// softmax and log_softmax over one axis.
#include <limits>
#include <string_view>

#include "annotator/convert/ops/elementwise.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"

namespace whence::convert {
namespace {

// ONNX's Softmax needs an axis, so a scalar becomes a vector of one element.
Val over_axis(Ctx& c, std::string_view op_type, Val x) {
  if (c.rank(c.tensor("self")) == 0) {
    return c.squeeze(c.emit(op_type, {c.unsqueeze(x, {0})}, {{"axis", 0}}), {0});
  }
  return c.emit(op_type, {x}, {{"axis", c.axis(c.integer("dim"), c.rank(c.tensor("self")))}});
}

// The result's dtype is the one PyTorch computes in, whether `dtype` or `half_to_float` sets it.
void softmax(Ctx& c) { c.yield(over_axis(c, "Softmax", self_as_result(c))); }

// Decomposed in float64: ONNX Runtime's LogSoftmax gives finite numbers for a row that holds NaN or infinity.
void log_softmax(Ctx& c) {
  const Val x = self_as_result(c);
  const int rank = c.rank(x);
  if (c.output_dtype() != DType::float64 || rank == 0) return c.yield(over_axis(c, "LogSoftmax", x));
  const Ints axes{c.axis(c.integer("dim"), rank)};
  const Val below = c.emit("Sub", {x, reduce(c, "ReduceMax", x, axes, true)});
  c.yield(c.emit("Sub", {below, c.emit("Log", {reduce(c, "ReduceSum", c.emit("Exp", {below}), axes, true)})}));
}

// Gives 0 instead of NaN for a row of only -inf; a row with NaN stays NaN.
void safe_softmax(Ctx& c) {
  const DType dtype = c.output_dtype();
  const Val x = self_as_result(c), y = over_axis(c, "Softmax", x);
  const int rank = c.rank(x);
  // Does not use the maximum: a runtime may ignore NaN next to numbers that are all -inf.
  const Val minus_infinity = c.constant_number(-std::numeric_limits<double>::infinity(), dtype);
  const Val counts =
      c.cast(c.typed(c.emit("Not", {c.emit("Equal", {x, minus_infinity})}), DType::boolean), DType::float32);
  const Val any = rank == 0 ? counts : reduce(c, "ReduceMax", counts, {c.axis(c.integer("dim"), rank)}, true);
  c.yield(c.emit("Where", {c.cast(c.typed(any, DType::float32), DType::boolean), y, c.constant_number(0, dtype)}));
}

const OpEntry kSoftmax[] = {
    {"aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", softmax},
    {"aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax},
    {"aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", safe_softmax},
    {"aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", log_softmax},
    {"aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", log_softmax},
};

}  // namespace

OpFamily softmax_ops() { return kSoftmax; }

}  // namespace whence::convert
