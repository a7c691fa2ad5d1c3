#include "annotator/convert/lerp.h"

#include <cmath>

namespace whence::convert {
namespace {

Val from_start(Ctx& c, Val start, Val difference, Val weight) {
  return c.emit("Add", {start, c.emit("Mul", {weight, difference})});
}
Val from_end(Ctx& c, Val end, Val difference, Val rest) {
  return c.emit("Sub", {end, c.emit("Mul", {difference, rest})});
}

}  // namespace

Val lerp_by(Ctx& c, Val start, Val end, double weight) {
  const DType dtype = c.dtype(start);
  const Val difference = c.emit("Sub", {end, start});
  if (std::abs(weight) < 0.5) return from_start(c, start, difference, c.constant_number(weight, dtype));
  return from_end(c, end, difference, c.constant_number(1 - weight, dtype));
}

Val lerp_by(Ctx& c, Val start, Val end, Val weight) {
  const DType dtype = c.dtype(start);
  const Val difference = c.emit("Sub", {end, start}), rest = c.emit("Sub", {c.constant_number(1, dtype), weight});
  const Val near = c.emit("Less", {c.emit("Abs", {weight}), c.constant_number(0.5, dtype)});
  return c.emit("Where", {near, from_start(c, start, difference, weight), from_end(c, end, difference, rest)});
}

}  // namespace whence::convert
