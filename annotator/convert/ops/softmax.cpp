// softmax and log_softmax over one axis.
#include <string_view>

#include "annotator/convert/ops/families.h"

namespace whence::convert {
namespace {

// A scalar is a vector of one to ONNX, whose Softmax needs an axis.
Val over_axis(Ctx& c, std::string_view op_type, Val x) {
  if (c.rank(c.tensor("self")) == 0) {
    return c.squeeze(c.emit(op_type, {c.unsqueeze(x, {0})}, {{"axis", 0}}), {0});
  }
  return c.emit(op_type, {x}, {{"axis", c.axis(c.integer("dim"), c.rank(c.tensor("self")))}});
}

// The result's dtype is the one PyTorch computes in, whether `dtype` or `half_to_float` asked for it.
Val in_result_dtype(Ctx& c) { return c.cast(c.tensor("self"), c.output_dtype()); }

void softmax(Ctx& c) { c.yield(over_axis(c, "Softmax", in_result_dtype(c))); }

void log_softmax(Ctx& c) { c.yield(over_axis(c, "LogSoftmax", in_result_dtype(c))); }

// 0 instead of NaN where a whole row is -inf.
void safe_softmax(Ctx& c) {
  const Val y = over_axis(c, "Softmax", in_result_dtype(c));
  c.yield(c.emit("Where", {c.emit("IsNaN", {y}), c.constant_number(0, c.output_dtype()), y}));
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
