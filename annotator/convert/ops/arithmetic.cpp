// Sums, products, powers, bounds: arithmetic between two tensors that broadcast against each other, or a tensor and a
// number. Operands are cast to the result's dtype before the computation, as in PyTorch.
#include <cmath>
#include <limits>
#include <numbers>

#include "annotator/convert/float64_forms.h"
#include "annotator/convert/lerp.h"
#include "annotator/convert/narrow_constants.h"
#include "annotator/convert/nonnegative.h"
#include "annotator/convert/ops/elementwise.h"
#include "annotator/convert/ops/families.h"

namespace whence::convert {
namespace {

// op(x, y) in the result's dtype, or in a wider one for narrow integers and for float16 with a number; yield() casts
// back.
Val combine(Ctx& c, const char* op, Val x, Val y) {
  const DType dtype = dtype_for_numbers(c, arithmetic_dtype(c.output_dtype()), x, y);
  return c.emit(op, {c.cast(x, dtype), c.cast(y, dtype)});
}

// Like combine() above, for operators that PyTorch also has for booleans, which ONNX's arithmetic does not accept.
Val combine(Ctx& c, const char* op, const char* boolean_op, Val x, Val y) {
  return combine(c, c.output_dtype() == DType::boolean ? boolean_op : op, x, y);
}

// alpha * x.
Val scaled(Ctx& c, Val x) {
  const DType dtype = arithmetic_dtype(c.output_dtype());
  return times_scalar(c, c.cast(x, dtype), "alpha", dtype);
}

void add(Ctx& c) { c.yield(combine(c, "Add", "Or", c.tensor("self"), scaled(c, c.tensor("other")))); }
void sub(Ctx& c) { c.yield(combine(c, "Sub", c.tensor("self"), scaled(c, c.tensor("other")))); }
void rsub(Ctx& c) { c.yield(combine(c, "Sub", c.tensor("other"), scaled(c, c.tensor("self")))); }
void mul(Ctx& c) { c.yield(combine(c, "Mul", "And", c.tensor("self"), c.tensor("other"))); }
void maximum(Ctx& c) { c.yield(combine(c, "Max", "Or", c.tensor("self"), c.tensor("other"))); }
void minimum(Ctx& c) { c.yield(combine(c, "Min", "And", c.tensor("self"), c.tensor("other"))); }

// If one operand is NaN, the result is the other operand.
void extreme_number(Ctx& c, const char* op, const char* boolean_op) {
  const Val x = c.cast(c.tensor("self"), c.output_dtype()), y = c.cast(c.tensor("other"), c.output_dtype());
  if (!is_floating(c.output_dtype())) return c.yield(combine(c, op, boolean_op, x, y));
  const Val number = c.emit("Where", {c.emit("IsNaN", {x}), y, x}),
            other = c.emit("Where", {c.emit("IsNaN", {y}), x, y});
  c.yield(c.emit(op, {number, other}));
}
void fmax(Ctx& c) { extreme_number(c, "Max", "Or"); }
void fmin(Ctx& c) { extreme_number(c, "Min", "And"); }

// Integer bases with integer exponents stay integers; a floating exponent makes the result floating. float_power always
// computes in float64.
void pow(Ctx& c) {
  const Val base = c.tensor("self"), exponent = c.tensor("exponent");
  const Val power = combine(c, "Pow", base, exponent);
  const DType dtype = c.output_dtype(), exponent_dtype = c.dtype(exponent);
  const bool has_sign = is_integral(exponent_dtype) && !is_unsigned(exponent_dtype);
  if (is_floating(dtype) || !has_sign || never_negative(c, exponent)) return c.yield(power);
  // ONNX Runtime computes 0 to a negative power as infinity and casts that to an integer; PyTorch gives 0.
  const auto compared = [&](const char* op, Val x) {
    return c.emit(op, {c.cast(x, DType::int64), c.constant_number(0, DType::int64)});
  };
  const Val infinite = c.emit("And", {compared("Less", exponent), compared("Equal", base)});
  c.yield(c.emit("Where", {infinite, c.constant_number(0, dtype), c.typed(power, dtype)}));
}

// Except in float16, PyTorch computes the power 0.5 as Sqrt, which is NaN for minus infinity, and -0.5 as its
// reciprocal.
void pow_scalar(Ctx& c) {
  const auto* exponent = c.node().find("exponent");
  const auto* number = exponent == nullptr ? nullptr : exponent->as<double>();
  if (number == nullptr || std::abs(*number) != 0.5 || c.output_dtype() == DType::float16) return pow(c);
  const Val root = c.emit("Sqrt", {self_as_result(c)});
  c.yield(*number > 0 ? root : c.emit("Reciprocal", {root}));
}

// 0 where self < 0, 1 where self > 0, values where self is 0.
void heaviside(Ctx& c) {
  const DType dtype = arithmetic_dtype(c.output_dtype());
  const Val x = c.cast(c.tensor("self"), dtype), zero = c.constant_number(0, dtype);
  const Val step = c.cast(c.emit("Greater", {x, zero}), dtype);
  c.yield(c.emit("Where", {c.emit("Equal", {x, zero}), c.cast(c.tensor("values"), dtype), step}));
}

// self + value * tensor1 op tensor2
void add_combined(Ctx& c, const char* op) {
  const DType dtype = c.output_dtype();
  Val term = c.emit(op, {c.cast(c.tensor("tensor1"), dtype), c.cast(c.tensor("tensor2"), dtype)});
  if (c.number("value") != 1) term = c.emit("Mul", {term, c.scalar("value", dtype)});
  c.yield(c.emit("Add", {self_as_result(c), term}));
}
void addcmul(Ctx& c) { add_combined(c, "Mul"); }
void addcdiv(Ctx& c) { add_combined(c, "Div"); }

// self + weight * (end - self)
void lerp_scalar(Ctx& c) { c.yield(lerp_by(c, c.tensor("self"), c.tensor("end"), c.number("weight"))); }
void lerp(Ctx& c) {
  c.yield(lerp_by(c, c.tensor("self"), c.tensor("end"), c.cast(c.tensor("weight"), c.output_dtype())));
}

// Bounds that are numbers. If min > max, max wins, in PyTorch and in ONNX. A single bound uses Max or Min: in Clip,
// runtimes replace a missing bound with the largest finite number, which cuts off infinity.
void clamp_between(Ctx& c, bool has_min, bool has_max) {
  const DType dtype = arithmetic_dtype(c.output_dtype());
  std::vector<Val> inputs{c.cast(c.tensor("self"), dtype)};
  if (has_min) inputs.push_back(c.scalar("min", dtype));
  if (has_max) inputs.push_back(c.scalar("max", dtype));
  c.yield(c.emit(has_min && has_max ? "Clip" : has_min ? "Max" : "Min", inputs));
}
void clamp(Ctx& c) { clamp_between(c, c.has("min"), c.has("max")); }
void clamp_min(Ctx& c) { clamp_between(c, true, false); }
void clamp_max(Ctx& c) { clamp_between(c, false, true); }

// Bounds that are tensors, which broadcast.
void clamp_tensor(Ctx& c) {
  Val x = c.tensor("self");
  if (const Val low = c.optional_tensor("min")) x = combine(c, "Max", "Or", x, low);
  if (const Val high = c.optional_tensor("max")) x = combine(c, "Min", "And", x, high);
  c.yield(x);
}
void clamp_min_tensor(Ctx& c) { c.yield(combine(c, "Max", "Or", c.tensor("self"), c.tensor("min"))); }
void clamp_max_tensor(Ctx& c) { c.yield(combine(c, "Min", "And", c.tensor("self"), c.tensor("max"))); }

// Computes the angle of the point (other, self) from the angle of (|other|, self), mirrored where other is negative. If
// |self| and |other| are equal, infinities included, the slope is the sign of self.
void atan2(Ctx& c) {
  const DType dtype = c.output_dtype();
  const Val y = self_as_result(c), x = c.cast(c.tensor("other"), dtype);
  const Val zero = c.constant_number(0, dtype), width = c.emit("Abs", {x});
  const Val same = c.emit("Equal", {c.emit("Abs", {y}), width});
  const Val angle = c.emit("Atan", {c.emit("Where", {same, c.emit("Sign", {y}), c.emit("Div", {y, width})})});
  const Val half_turn = c.emit("Where", {c.emit("Less", {y, zero}), c.constant_number(-std::numbers::pi, dtype),
                                         c.constant_number(std::numbers::pi, dtype)});
  c.yield(c.emit("Where", {c.emit("Less", {x, zero}), c.emit("Sub", {half_turn, angle}), angle}));
}

// log(exp(self) + exp(other)) as max + log(1 + exp(-|difference|)), which does not overflow. The difference of equal
// infinities counts as 0. `unit`: the natural logarithm of the base.
void log_of_sum(Ctx& c, double unit) {
  const DType dtype = c.output_dtype();
  const Val x = c.cast(c.tensor("self"), dtype), y = c.cast(c.tensor("other"), dtype);
  const Val difference = c.emit("Abs", {c.emit("Sub", {x, y})});
  const Val gap = c.emit("Where", {c.emit("Equal", {x, y}), c.constant_number(0, dtype), difference});
  const Val more = softplus_of(c, c.emit("Mul", {gap, c.constant_number(-unit, dtype)}));
  const Val scaled = unit == 1 ? more : c.emit("Div", {more, c.constant_number(unit, dtype)});
  c.yield(c.emit("Add", {c.emit("Max", {x, y}), scaled}));
}
void logaddexp(Ctx& c) { log_of_sum(c, 1); }
void logaddexp2(Ctx& c) { log_of_sum(c, std::numbers::ln2); }

// self * 2^other in two steps, because 2^other may overflow where the result does not. Narrow dtypes are computed in
// float32. The exponent is clipped: an infinite one would give infinity minus infinity in the second step.
void ldexp(Ctx& c) {
  const DType dtype = c.output_dtype() == DType::float64 ? DType::float64 : DType::float32;
  constexpr double beyond_all = 5000;  // half of it exceeds every floating exponent
  const Val exponent = c.emit("Clip", {c.cast(c.tensor("other"), dtype), c.constant_number(-beyond_all, dtype),
                                       c.constant_number(beyond_all, dtype)});
  const Val half = c.emit("Floor", {c.emit("Mul", {exponent, c.constant_number(0.5, dtype)})});
  const auto times = [&](Val x, Val e) { return c.emit("Mul", {x, c.emit("Pow", {c.constant_number(2, dtype), e})}); };
  const Val once = times(c.cast(c.tensor("self"), dtype), half);
  c.yield(c.typed(times(once, c.emit("Sub", {exponent, half})), dtype));
}

// sqrt(self^2 + other^2), as larger * sqrt(1 + (smaller / larger)^2), which does not overflow.
void hypot(Ctx& c) {
  const DType dtype = c.output_dtype();
  const Val x = c.emit("Abs", {self_as_result(c)}), y = c.emit("Abs", {c.cast(c.tensor("other"), dtype)});
  const Val larger = c.emit("Max", {x, y}), smaller = c.emit("Min", {x, y});
  const Val ratio = c.emit("Div", {smaller, larger});
  const Val one_more = c.emit("Add", {c.emit("Mul", {ratio, ratio}), c.constant_number(1, dtype)});
  const Val length = c.emit("Mul", {larger, c.emit("Sqrt", {one_more})});
  // The ratio is NaN if both are 0 or both infinite; if one is infinite, the result is.
  const Val infinity = c.constant_number(std::numeric_limits<double>::infinity(), dtype);
  const Val endless = c.emit("Or", {c.emit("Equal", {x, infinity}), c.emit("Equal", {y, infinity})});
  c.yield(c.emit(
      "Where",
      {endless, infinity, c.emit("Where", {c.emit("Equal", {smaller, c.constant_number(0, dtype)}), larger, length})}));
}

// |self| with the sign of other. For zeros the reciprocal gives the sign: 1 / -0 is minus infinity.
void copysign(Ctx& c) {
  const DType dtype = c.output_dtype();
  const Val size = c.emit("Abs", {self_as_result(c)}), other = c.cast(c.tensor("other"), dtype);
  const Val zero = c.constant_number(0, dtype);
  const Val side = c.emit("Where", {c.emit("Equal", {other, zero}), c.emit("Reciprocal", {other}), other});
  c.yield(c.emit("Where", {c.emit("Less", {side, zero}), c.emit("Neg", {size}), size}));
}

const OpEntry kArithmetic[] = {
    {"aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", add},
    {"aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", add},
    {"aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", addcdiv},
    {"aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", addcmul},
    {"aten::atan2(Tensor self, Tensor other) -> Tensor", atan2},
    {"aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", clamp},
    {"aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", clamp_tensor},
    {"aten::clamp_max(Tensor self, Scalar max) -> Tensor", clamp_max},
    {"aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", clamp_max_tensor},
    {"aten::clamp_min(Tensor self, Scalar min) -> Tensor", clamp_min},
    {"aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", clamp_min_tensor},
    {"aten::copysign.Scalar(Tensor self, Scalar other) -> Tensor", copysign},
    {"aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor", copysign},
    {"aten::float_power.Scalar(Scalar self, Tensor exponent) -> Tensor", pow},
    {"aten::float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", pow},
    {"aten::float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", pow},
    {"aten::fmax(Tensor self, Tensor other) -> Tensor", fmax},
    {"aten::fmin(Tensor self, Tensor other) -> Tensor", fmin},
    {"aten::heaviside(Tensor self, Tensor values) -> Tensor", heaviside},
    {"aten::hypot(Tensor self, Tensor other) -> Tensor", hypot},
    {"aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", lerp_scalar},
    {"aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", lerp},
    {"aten::logaddexp(Tensor self, Tensor other) -> Tensor", logaddexp},
    {"aten::ldexp.Tensor(Tensor self, Tensor other) -> Tensor", ldexp},
    {"aten::logaddexp2(Tensor self, Tensor other) -> Tensor", logaddexp2},
    {"aten::max.other(Tensor self, Tensor other) -> Tensor", maximum},
    {"aten::maximum(Tensor self, Tensor other) -> Tensor", maximum},
    {"aten::min.other(Tensor self, Tensor other) -> Tensor", minimum},
    {"aten::minimum(Tensor self, Tensor other) -> Tensor", minimum},
    {"aten::mul.Scalar(Tensor self, Scalar other) -> Tensor", mul},
    {"aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", mul},
    {"aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor", pow},
    {"aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", pow_scalar},
    {"aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", pow},
    {"aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", rsub},
    {"aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", rsub},
    {"aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", sub},
    {"aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", sub},
};

}  // namespace

OpFamily arithmetic_ops() { return kArithmetic; }

}  // namespace whence::convert
