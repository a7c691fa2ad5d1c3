// Uses ONNX reductions for the orders that have one, powers for all others.
#include "annotator/convert/vector_norm.h"

#include <cmath>

#include "annotator/convert/reduce.h"

namespace whence::convert {

Val vector_norm(Ctx& c, Val x, double p, const Ints& axes, bool keep) {
  const DType dtype = c.dtype(x);
  const bool number = c.rank(x) == 0;
  if (number && p != 0) return c.emit("Abs", {x});
  if (p == 2) return reduce(c, "ReduceL2", x, axes, keep);
  if (p == 1) return reduce(c, "ReduceL1", x, axes, keep);
  if (std::isinf(p)) return reduce_with_nan(c, p > 0 ? "ReduceMax" : "ReduceMin", c.emit("Abs", {x}), axes, keep);
  if (p == 0) {
    const Val zero = c.emit("Equal", {x, c.constant_number(0, dtype)});
    const Val other = c.typed(c.emit("Not", {zero}), DType::boolean);
    return number ? c.cast(other, dtype) : reduce(c, "ReduceSum", c.cast(other, dtype), axes, keep);
  }
  const Val powers = c.emit("Pow", {c.emit("Abs", {x}), c.constant_number(p, dtype)});
  return c.emit("Pow", {reduce(c, "ReduceSum", powers, axes, keep), c.constant_number(1 / p, dtype)});
}

}  // namespace whence::convert
