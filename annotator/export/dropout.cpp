// ONNX's Dropout is the identity unless its third input says that it trains.
#include "annotator/export/dropout.h"

namespace whence {
namespace {

std::vector<Val> inputs(Ctx& c, Val value, double ratio) {
  return {value, c.constant_number(ratio, DType::float32), c.constant_number(1, DType::boolean)};
}

}  // namespace

Val training_dropout(Ctx& c, Val value, double ratio) {
  return ratio == 0 ? value : c.emit("Dropout", inputs(c, value, ratio));
}

std::vector<Val> training_dropout_with_mask(Ctx& c, Val value, double ratio) {
  return c.emit_many("Dropout", inputs(c, value, ratio), {}, 2);
}

}  // namespace whence
