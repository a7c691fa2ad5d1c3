// The formulas of float64_forms.h; hyperbolic functions use their definitions by exp and log.
#include "annotator/convert/float64_forms.h"

namespace whence::convert {
namespace {

bool is_wide(Ctx& c, Val x) { return c.dtype(x) == DType::float64; }

Val number(Ctx& c, double value) { return c.constant_number(value, DType::float64); }

Val exp(Ctx& c, Val x) { return c.emit("Exp", {x}); }

// (exp(x) op exp(-x)) / 2
Val half_of(Ctx& c, const char* op, Val x) {
  return c.emit("Mul", {c.emit(op, {exp(c, x), exp(c, c.emit("Neg", {x}))}), number(c, 0.5)});
}

// log(x + sqrt(x^2 + shift))
Val log_with_root(Ctx& c, Val x, double shift) {
  const Val root = c.emit("Sqrt", {c.emit("Add", {c.emit("Mul", {x, x}), number(c, shift)})});
  return c.emit("Log", {c.emit("Add", {x, root})});
}

}  // namespace

// max(x, 0) + log(1 + exp(-|x|)), which does not overflow.
Val softplus_of(Ctx& c, Val x) {
  if (!is_wide(c, x)) return c.emit("Softplus", {x});
  const Val rest = exp(c, c.emit("Neg", {c.emit("Abs", {x})}));
  const Val log = c.emit("Log", {c.emit("Add", {rest, number(c, 1)})});
  return c.emit("Add", {c.emit("Max", {x, number(c, 0)}), log});
}

Val hard_sigmoid_of(Ctx& c, Val x) {
  if (!is_wide(c, x)) return c.emit("HardSigmoid", {x}, {{"alpha", 1.0F / 6}});
  const Val clipped = c.emit("Clip", {c.emit("Add", {x, number(c, 3)}), number(c, 0), number(c, 6)});
  return c.emit("Div", {clipped, number(c, 6)});
}

Val leaky_relu_of(Ctx& c, Val x, double slope) {
  if (!is_wide(c, x)) return c.emit("LeakyRelu", {x}, {{"alpha", static_cast<float>(slope)}});
  return prelu_of(c, x, number(c, slope));
}

Val prelu_of(Ctx& c, Val x, Val slope) {
  if (!is_wide(c, x)) return c.emit("PRelu", {x, slope});
  return c.emit("Where", {c.emit("Greater", {x, number(c, 0)}), x, c.emit("Mul", {x, slope})});
}

Val sinh_of(Ctx& c, Val x) { return is_wide(c, x) ? half_of(c, "Sub", x) : c.emit("Sinh", {x}); }
Val cosh_of(Ctx& c, Val x) { return is_wide(c, x) ? half_of(c, "Add", x) : c.emit("Cosh", {x}); }

Val tan_of(Ctx& c, Val x) {
  if (!is_wide(c, x)) return c.emit("Tan", {x});
  return c.emit("Div", {c.emit("Sin", {x}), c.emit("Cos", {x})});
}

// Computed from |x| with the sign of x restored: for negative x, x and the root would cancel each other.
Val asinh_of(Ctx& c, Val x) {
  if (!is_wide(c, x)) return c.emit("Asinh", {x});
  return c.emit("Mul", {c.emit("Sign", {x}), log_with_root(c, c.emit("Abs", {x}), 1)});
}

Val acosh_of(Ctx& c, Val x) { return is_wide(c, x) ? log_with_root(c, x, -1) : c.emit("Acosh", {x}); }

// log((1 + x) / (1 - x)) / 2
Val atanh_of(Ctx& c, Val x) {
  if (!is_wide(c, x)) return c.emit("Atanh", {x});
  const Val ratio = c.emit("Div", {c.emit("Add", {number(c, 1), x}), c.emit("Sub", {number(c, 1), x})});
  return c.emit("Mul", {c.emit("Log", {ratio}), number(c, 0.5)});
}

}  // namespace whence::convert
