// ONNX's Dropout is the identity unless its third input, training_mode, is true.
#include "annotator/convert/dropout.h"

namespace whence::convert {
namespace {

std::vector<Val> inputs(Ctx& c, Val value, double ratio) {
  return {value, c.constant_number(ratio, DType::float32), c.constant_number(1, DType::boolean)};
}

// Drops all elements: ONNX's ratio must be below 1. NaN stays NaN, as in PyTorch.
Val all_dropped(Ctx& c, Val value) { return c.emit("Mul", {value, c.constant_number(0, c.dtype(value))}); }

}  // namespace

Val training_dropout(Ctx& c, Val value, double ratio) {
  if (ratio == 1) return all_dropped(c, value);
  return ratio == 0 ? value : c.emit("Dropout", inputs(c, value, ratio));
}

std::vector<Val> training_dropout_with_mask(Ctx& c, Val value, double ratio) {
  if (ratio == 1) {
    const Val kept = c.constant_number(0, DType::boolean);
    return {all_dropped(c, value), c.emit("Expand", {kept, c.emit("Shape", {value})})};
  }
  return c.emit_many("Dropout", inputs(c, value, ratio), {}, 2);
}

}  // namespace whence::convert
