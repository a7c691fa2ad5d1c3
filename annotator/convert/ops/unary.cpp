// Functions of one tensor, element by element: exponentials, trigonometry, rounding, classification.
#include <cmath>
#include <limits>
#include <numbers>

#include "annotator/convert/float64_forms.h"
#include "annotator/convert/ops/division.h"
#include "annotator/convert/ops/elementwise.h"
#include "annotator/convert/ops/families.h"
#include "annotator/program/number_range.h"

namespace whence::convert {
namespace {

Val number(Ctx& c, double value) { return c.constant_number(value, c.output_dtype()); }

// Functions that map integers to integers; narrow ones are computed in 32 bits, and yield() casts back.
template <OpName op>
void on_any_number(Ctx& c) {
  c.yield(c.emit(op.text, {c.cast(c.tensor("self"), arithmetic_dtype(c.output_dtype()))}));
}

// Rounding does not change integers.
template <OpName op>
void rounding(Ctx& c) {
  const Val x = c.tensor("self");
  c.yield(is_floating(c.dtype(x)) ? c.emit(op.text, {x}) : x);
}

void trunc(Ctx& c) {
  const Val x = c.tensor("self");
  c.yield(is_floating(c.dtype(x)) ? truncated(c, x) : x);
}

// The fractional part, with the sign of x.
void frac(Ctx& c) {
  const Val x = c.tensor("self");
  c.yield(c.emit("Sub", {x, truncated(c, x)}));
}

// Rounds half to even at `decimals` decimal places; negative ones round to tens, hundreds, ...
void round_decimals(Ctx& c) {
  const Val x = c.tensor("self");
  const std::int64_t decimals = c.integer("decimals");
  if (!is_floating(c.dtype(x))) return c.yield(x);
  if (decimals == 0) return c.yield(c.emit("Round", {x}));
  const Val unit = number(c, std::pow(10.0, static_cast<double>(std::abs(decimals))));
  const char *scale = decimals > 0 ? "Mul" : "Div", *unscale = decimals > 0 ? "Div" : "Mul";
  c.yield(c.emit(unscale, {c.emit("Round", {c.emit(scale, {x, unit})}), unit}));
}

// A boolean is its own sign. The sign of NaN is 0 in PyTorch and NaN in runtimes.
void sign(Ctx& c) {
  const Val x = c.tensor("self");
  if (c.dtype(x) == DType::boolean) return c.yield(x);
  if (!is_floating(c.dtype(x))) return on_any_number<"Sign">(c);
  c.yield(c.emit("Where", {c.emit("IsNaN", {x}), number(c, 0), c.emit("Sign", {x})}));
}

// The angle of a real number: 0, or pi if it is negative.
void angle(Ctx& c) {
  const Val x = self_as_result(c);
  const Val turned = c.emit("Where", {c.emit("Less", {x, number(c, 0)}), number(c, std::numbers::pi), number(c, 0)});
  c.yield(c.emit("Where", {c.emit("IsNaN", {x}), x, turned}));
}

// x = mantissa * 2^exponent with 0.5 <= |mantissa| < 1. The logarithm may be off by one, which is corrected. Powers of
// two are applied in two steps: 2^-exponent of the smallest numbers exceeds the largest number.
void frexp(Ctx& c) {
  const DType dtype = c.output_dtype();
  const Val x = c.tensor("self"), size = c.emit("Abs", {x}), zero = number(c, 0), half = number(c, 0.5);
  const auto binary = [&](const char* op, Val a, Val b) { return c.typed(c.emit(op, {a, b}), dtype); };
  const auto where = [&](Val condition, Val a, Val b) { return c.typed(c.emit("Where", {condition, a, b}), dtype); };
  const auto times_power = [&](Val y, Val power) {
    const Val first = c.typed(c.emit("Floor", {binary("Mul", power, half)}), dtype);
    const Val half_scaled = binary("Mul", y, binary("Pow", number(c, 2), first));
    return binary("Mul", half_scaled, binary("Pow", number(c, 2), binary("Sub", power, first)));
  };
  const Val finite = c.emit("Equal", {binary("Sub", x, x), zero});
  const Val plain = c.emit("And", {finite, c.emit("Greater", {size, zero})});
  const Val logarithm = binary("Div", c.emit("Log", {where(plain, size, number(c, 1))}), number(c, std::numbers::ln2));
  const Val guess = binary("Add", c.emit("Floor", {logarithm}), number(c, 1));
  const Val guessed = times_power(where(plain, size, zero), c.emit("Neg", {guess}));
  const Val over = c.cast(c.emit("GreaterOrEqual", {guessed, number(c, 1)}), dtype);
  const Val under = c.cast(c.emit("And", {plain, c.emit("Less", {guessed, half})}), dtype);
  const Val power = where(plain, binary("Sub", binary("Add", guess, over), under), zero);
  c.yield({where(plain, times_power(x, c.emit("Neg", {power})), x), c.cast(power, DType::int32)});
}

void sinh(Ctx& c) { c.yield(sinh_of(c, self_as_result(c))); }
void cosh(Ctx& c) { c.yield(cosh_of(c, self_as_result(c))); }
void tan(Ctx& c) { c.yield(tan_of(c, self_as_result(c))); }
void asinh(Ctx& c) { c.yield(asinh_of(c, self_as_result(c))); }
void acosh(Ctx& c) { c.yield(acosh_of(c, self_as_result(c))); }
void atanh(Ctx& c) { c.yield(atanh_of(c, self_as_result(c))); }

void square(Ctx& c) {
  const Val x = c.tensor("self");
  c.yield(c.emit("Mul", {x, x}));
}

void rsqrt(Ctx& c) { c.yield(c.emit("Reciprocal", {c.emit("Sqrt", {self_as_result(c)})})); }
void erfc(Ctx& c) { c.yield(c.emit("Sub", {number(c, 1), c.emit("Erf", {self_as_result(c)})})); }
void exp2(Ctx& c) { c.yield(c.emit("Pow", {number(c, 2), self_as_result(c)})); }
void expm1(Ctx& c) { c.yield(c.emit("Sub", {c.emit("Exp", {self_as_result(c)}), number(c, 1)})); }
void log1p(Ctx& c) { c.yield(c.emit("Log", {c.emit("Add", {self_as_result(c), number(c, 1)})})); }

// The logarithm to a base whose natural logarithm is `base`.
void log_to(Ctx& c, double base) { c.yield(c.emit("Div", {c.emit("Log", {self_as_result(c)}), number(c, base)})); }
void log2(Ctx& c) { log_to(c, std::numbers::ln2); }
void log10(Ctx& c) { log_to(c, std::numbers::ln10); }

void times(Ctx& c, double factor) { c.yield(c.emit("Mul", {self_as_result(c), number(c, factor)})); }
void deg2rad(Ctx& c) { times(c, std::numbers::pi / 180); }
void rad2deg(Ctx& c) { times(c, 180 / std::numbers::pi); }

// sin(pi x) / (pi x), 1 at 0.
void sinc(Ctx& c) {
  const Val x = self_as_result(c), angle = c.emit("Mul", {x, number(c, std::numbers::pi)});
  const Val ratio = c.emit("Div", {c.emit("Sin", {angle}), angle});
  c.yield(c.emit("Where", {c.emit("Equal", {x, number(c, 0)}), number(c, 1), ratio}));
}

// True if x is negative or -0: 1 / -0 is minus infinity.
void signbit(Ctx& c) {
  const Val x = c.tensor("self");
  const DType dtype = c.dtype(x) == DType::boolean ? DType::int32 : arithmetic_dtype(c.dtype(x));
  const Val zero = c.constant_number(0, dtype);
  if (!is_floating(dtype)) return c.yield(c.emit("Less", {c.cast(x, dtype), zero}));
  const Val side = c.emit("Where", {c.emit("Equal", {x, zero}), c.emit("Reciprocal", {x}), x});
  c.yield(c.emit("Less", {side, zero}));
}

// Tests for special floating values; integers and booleans have none of them.
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Val constant_answer(Ctx& c, Val x, const char* op) {
  if (c.dtype(x) == DType::boolean) x = c.cast(x, DType::int32);
  return c.emit(op, {x, x});
}

void isnan(Ctx& c) {
  const Val x = c.tensor("self");
  c.yield(is_floating(c.dtype(x)) ? c.emit("IsNaN", {x}) : constant_answer(c, x, "Less"));
}

// ONNX IsInf accepts float16 only since opset 20; every version can select a sign.
void is_infinite(Ctx& c, Attributes signs) {
  const Val x = c.tensor("self");
  if (!is_floating(c.dtype(x))) return c.yield(constant_answer(c, x, "Less"));
  const bool as_it_is = size_of(c.dtype(x)) >= 4 || c.opset() >= 20;
  c.yield(c.emit("IsInf", {as_it_is ? x : c.cast(x, DType::float32)}, std::move(signs)));
}
void isinf(Ctx& c) { is_infinite(c, {}); }
void isposinf(Ctx& c) { is_infinite(c, {{"detect_negative", 0}}); }
void isneginf(Ctx& c) { is_infinite(c, {{"detect_positive", 0}}); }

// |x| < inf, which is also false for NaN.
void isfinite(Ctx& c) {
  const Val x = c.tensor("self");
  if (!is_floating(c.dtype(x))) return c.yield(constant_answer(c, x, "Equal"));
  c.yield(c.emit("Less", {c.emit("Abs", {x}), c.constant_number(kInfinity, c.dtype(x))}));
}

// Replaces NaN with `nan` (0) and the infinities with `posinf`, `neginf` (the dtype's extremes).
void nan_to_num(Ctx& c) {
  Val x = c.tensor("self");
  const DType dtype = c.dtype(x);
  if (!is_floating(dtype)) return c.yield(x);
  const double bound = program::greatest_finite(dtype);
  const double low = c.has("neginf") ? c.number("neginf") : -bound, high = c.has("posinf") ? c.number("posinf") : bound;
  const double nan = c.has("nan") ? c.number("nan") : 0;
  x = c.emit("Where", {c.emit("IsNaN", {x}), number(c, nan), x});
  x = c.emit("Where", {c.emit("Equal", {x, number(c, kInfinity)}), number(c, high), x});
  c.yield(c.emit("Where", {c.emit("Equal", {x, number(c, -kInfinity)}), number(c, low), x}));
}

const OpEntry kUnary[] = {
    {"aten::abs(Tensor self) -> Tensor", on_any_number<"Abs">},
    {"aten::acos(Tensor self) -> Tensor", direct<"Acos">},
    {"aten::acosh(Tensor self) -> Tensor", acosh},
    {"aten::angle(Tensor self) -> Tensor", angle},
    {"aten::asin(Tensor self) -> Tensor", direct<"Asin">},
    {"aten::asinh(Tensor self) -> Tensor", asinh},
    {"aten::atan(Tensor self) -> Tensor", direct<"Atan">},
    {"aten::atanh(Tensor self) -> Tensor", atanh},
    {"aten::ceil(Tensor self) -> Tensor", rounding<"Ceil">},
    {"aten::cos(Tensor self) -> Tensor", direct<"Cos">},
    {"aten::cosh(Tensor self) -> Tensor", cosh},
    {"aten::deg2rad(Tensor self) -> Tensor", deg2rad},
    {"aten::erf(Tensor self) -> Tensor", direct<"Erf">},
    {"aten::erfc(Tensor self) -> Tensor", erfc},
    {"aten::exp(Tensor self) -> Tensor", direct<"Exp">},
    {"aten::exp2(Tensor self) -> Tensor", exp2},
    {"aten::expm1(Tensor self) -> Tensor", expm1},
    {"aten::floor(Tensor self) -> Tensor", rounding<"Floor">},
    {"aten::frac(Tensor self) -> Tensor", frac},
    {"aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)", frexp},
    {"aten::isfinite(Tensor self) -> Tensor", isfinite},
    {"aten::isinf(Tensor self) -> Tensor", isinf},
    {"aten::isnan(Tensor self) -> Tensor", isnan},
    {"aten::isneginf(Tensor self) -> Tensor", isneginf},
    {"aten::isposinf(Tensor self) -> Tensor", isposinf},
    {"aten::log(Tensor self) -> Tensor", direct<"Log">},
    {"aten::log10(Tensor self) -> Tensor", log10},
    {"aten::log1p(Tensor self) -> Tensor", log1p},
    {"aten::log2(Tensor self) -> Tensor", log2},
    {"aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor", nan_to_num},
    {"aten::_neg_view(Tensor(a) self) -> Tensor(a)", on_any_number<"Neg">},
    {"aten::neg(Tensor self) -> Tensor", on_any_number<"Neg">},
    {"aten::rad2deg(Tensor self) -> Tensor", rad2deg},
    {"aten::reciprocal(Tensor self) -> Tensor", direct<"Reciprocal">},
    {"aten::round(Tensor self) -> Tensor", rounding<"Round">},
    {"aten::round.decimals(Tensor self, *, int decimals) -> Tensor", round_decimals},
    {"aten::rsqrt(Tensor self) -> Tensor", rsqrt},
    {"aten::sgn(Tensor self) -> Tensor", sign},
    {"aten::sign(Tensor self) -> Tensor", sign},
    {"aten::signbit(Tensor self) -> Tensor", signbit},
    {"aten::sin(Tensor self) -> Tensor", direct<"Sin">},
    {"aten::sinc(Tensor self) -> Tensor", sinc},
    {"aten::sinh(Tensor self) -> Tensor", sinh},
    {"aten::sqrt(Tensor self) -> Tensor", direct<"Sqrt">},
    {"aten::square(Tensor self) -> Tensor", square},
    {"aten::tan(Tensor self) -> Tensor", tan},
    {"aten::trunc(Tensor self) -> Tensor", trunc},
};

}  // namespace

OpFamily unary_ops() { return kUnary; }

}  // namespace whence::convert
