// Special functions that ONNX has no operators for: gamma, Bessel and inverse error functions, and logarithms guarded
// against zero. Each comment names the approximation; functions that would lose digits in float32 compute in float64.
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numbers>

#include "annotator/convert/ops/elementwise.h"
#include "annotator/convert/ops/families.h"

namespace whence::convert {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Arithmetic on values of one dtype, written like formulas.
struct Formula {
  Ctx& c;
  DType dtype;

  Val number(double value) const { return c.constant_number(value, dtype); }
  Val one(std::string_view op, Val x) const { return c.typed(c.emit(op, {x}), dtype); }
  Val two(std::string_view op, Val a, Val b) const { return c.typed(c.emit(op, {a, b}), dtype); }
  Val add(Val a, double b) const { return two("Add", a, number(b)); }
  Val mul(Val a, double b) const { return two("Mul", a, number(b)); }
  Val square(Val a) const { return two("Mul", a, a); }
  Val equal(Val a, double b) const { return c.emit("Equal", {a, number(b)}); }
  Val less(Val a, double b) const { return c.emit("Less", {a, number(b)}); }
  Val where(Val condition, Val a, Val b) const { return c.typed(c.emit("Where", {condition, a, b}), dtype); }

  // Horner's rule, with the coefficient of the highest power first.
  Val polynomial(Val x, std::initializer_list<double> coefficients) const {
    Val sum = number(*coefficients.begin());
    for (auto next = coefficients.begin() + 1; next != coefficients.end(); ++next) sum = add(two("Mul", sum, x), *next);
    return sum;
  }
};

// ---- logarithms times a factor that may be zero -------------------------------------------------------------------

// x * logarithm, but 0 where x is 0, unless y is NaN.
void guarded_product(Ctx& c, Val x, Val y, Val logarithm) {
  const Val zero = c.constant_number(0, c.output_dtype());
  const Val is_zero = c.emit("And", {c.emit("Equal", {x, zero}), c.emit("Equal", {y, y})});
  c.yield(c.emit("Where", {is_zero, zero, c.emit("Mul", {x, logarithm})}));
}

// self * log(other)
void xlogy(Ctx& c) {
  const Val x = self_as_result(c), y = c.cast(c.tensor("other"), c.output_dtype());
  guarded_product(c, x, y, c.emit("Log", {y}));
}

// self * log(1 + other)
void xlog1py(Ctx& c) {
  const Val x = self_as_result(c), y = c.cast(c.tensor("other"), c.output_dtype());
  guarded_product(c, x, y, c.emit("Log", {c.emit("Add", {y, c.constant_number(1, c.output_dtype())})}));
}

// -x log(x); 0 at 0, minus infinity below 0.
void entr(Ctx& c) {
  const Formula f{c, c.output_dtype()};
  const Val x = self_as_result(c);
  const Val inside = f.one("Neg", f.two("Mul", x, f.one("Log", x)));
  c.yield(f.where(f.equal(x, 0), f.number(0), f.where(f.less(x, 0), f.number(-kInfinity), inside)));
}

// The approximations below are accurate to the digits of float32.
void refuse_float64(Ctx& c) {
  if (c.output_dtype() == DType::float64) {
    c.refuse("its approximation, accurate to 2e-7, would lose half the digits of float64", "compute it in float32");
  }
}

// ---- error functions ----------------------------------------------------------------------------------------------

// exp(x^2) erfc(x) for x >= 0, with relative error 1.2e-7: Press et al., Numerical Recipes, 2nd ed., section 6.2.
Val scaled_erfc(const Formula& f, Val x) {
  const Val t = f.one("Reciprocal", f.add(f.mul(x, 0.5), 1));
  const Val exponent = f.polynomial(t, {0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806,
                                        0.09678418, 0.37409196, 1.00002368, -1.26551223});
  return f.two("Mul", t, f.one("Exp", exponent));
}

// For x < 0, computes 2 exp(x^2) minus the value at -x.
void erfcx(Ctx& c) {
  refuse_float64(c);
  const Formula f{c, c.output_dtype()};
  const Val x = self_as_result(c);
  const Val scaled = scaled_erfc(f, f.one("Abs", x));
  const Val below = f.two("Sub", f.mul(f.one("Exp", f.square(x)), 2), scaled);
  c.yield(f.where(f.less(x, 0), below, scaled));
}

// log of the normal distribution function; below -1, where its digits run out, computed from the scaled function.
void log_ndtr(Ctx& c) {
  refuse_float64(c);
  const Formula f{c, c.output_dtype()};
  const Val x = self_as_result(c);
  const Val tail = f.two("Sub", f.one("Log", f.mul(scaled_erfc(f, f.mul(f.one("Abs", x), std::sqrt(0.5))), 0.5)),
                         f.mul(f.square(x), 0.5));
  const Val log_of_cdf = f.one("Log", f.mul(f.add(f.one("Erf", f.mul(x, std::sqrt(0.5))), 1), 0.5));
  c.yield(f.where(f.less(x, -1), tail, log_of_cdf));
}

// M. Giles, Approximating the erfinv function, 2010: two polynomials in w = -log(1 - x^2).
void erfinv(Ctx& c) {
  refuse_float64(c);
  const Formula f{c, c.output_dtype()};
  const Val x = self_as_result(c);
  const Val w = f.one("Neg", f.one("Log", f.two("Mul", f.two("Sub", f.number(1), x), f.add(x, 1))));
  const Val centre =
      f.polynomial(f.add(w, -2.5), {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
  const Val tail =
      f.polynomial(f.add(f.one("Sqrt", w), -3), {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844,
                                                 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682});
  const Val inside = f.two("Mul", f.where(f.less(w, 5), centre, tail), x);
  c.yield(f.where(f.equal(f.one("Abs", x), 1), f.mul(x, kInfinity), inside));
}

// ---- gamma --------------------------------------------------------------------------------------------------------

// log of gamma for x >= 0.5: C. Lanczos' series with g = 7 and nine terms, as given by P. Godfrey.
Val lanczos(const Formula& f, Val x) {
  const double terms[] = {676.5203681218851,  -1259.1392167224028,  771.32342877765313,     -176.61502916214059,
                          12.507343278686905, -0.13857109526572012, 9.9843695780195716e-06, 1.5056327351493116e-07};
  const Val less_one = f.add(x, -1);
  Val sum = f.number(0.99999999999980993);
  for (int i = 0; i < 8; ++i) sum = f.two("Add", sum, f.two("Div", f.number(terms[i]), f.add(less_one, i + 1)));
  const Val t = f.add(less_one, 7.5);
  const Val power = f.two("Sub", f.two("Mul", f.add(less_one, 0.5), f.one("Log", t)), t);
  return f.add(f.two("Add", power, f.one("Log", sum)), 0.5 * std::log(2 * std::numbers::pi));
}

// Reflected below 0.5: log(pi / |sin(pi x)|) - lgamma(1 - x). Infinite at 0, -1, -2, ... and at both infinities.
void lgamma(Ctx& c) {
  const Formula f{c, DType::float64};
  const Val x = c.cast(self_as_result(c), f.dtype);
  const Val low = f.less(x, 0.5);
  const Val direct = lanczos(f, f.where(low, f.two("Sub", f.number(1), x), x));
  const Val phase = f.two("Sub", x, f.one("Floor", x));  // |sin| has the period 1 in x
  const Val sine = f.one("Sin", f.mul(phase, std::numbers::pi));
  const Val reflected = f.two("Sub", f.one("Log", f.two("Div", f.number(std::numbers::pi), sine)), direct);
  const Val poles = c.emit("And", {f.equal(phase, 0), f.less(x, 0.5)});
  const Val endless = c.emit("Or", {poles, f.equal(f.one("Abs", x), kInfinity)});
  c.yield(f.where(endless, f.number(kInfinity), f.where(low, reflected, direct)));
}

// The derivative of lgamma for x >= 0.5: psi(x) = psi(x + 8) - sum of 1 / (x + i), and Stirling's series at x + 8.
Val digamma_series(const Formula& f, Val x) {
  Val steps = f.one("Reciprocal", x);
  for (int i = 1; i < 8; ++i) steps = f.two("Add", steps, f.one("Reciprocal", f.add(x, i)));
  const Val far = f.add(x, 8), inverse = f.one("Reciprocal", far);
  const Val series = f.polynomial(f.square(inverse), {1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12, 0});
  return f.two("Sub", f.two("Sub", f.two("Sub", f.one("Log", far), f.mul(inverse, 0.5)), series), steps);
}

// Reflected below 0.5: psi(1 - x) - pi / tan(pi x). NaN at -1, -2, ...; at 0 infinite, with the sign opposite to the
// zero's.
void digamma(Ctx& c) {
  const Formula f{c, DType::float64};
  const Val x = c.cast(self_as_result(c), f.dtype);
  const Val low = f.less(x, 0.5);
  const Val direct = digamma_series(f, f.where(low, f.two("Sub", f.number(1), x), x));
  const Val phase = f.two("Sub", x, f.one("Floor", x)), angle = f.mul(phase, std::numbers::pi);
  const Val cotangent = f.two("Div", f.mul(f.one("Cos", angle), std::numbers::pi), f.one("Sin", angle));
  const Val reflected = f.two("Sub", direct, cotangent);
  const Val is_pole = c.emit("And", {f.equal(phase, 0), f.less(x, 0)});
  const Val inside = f.where(is_pole, f.number(kNaN), f.where(low, reflected, direct));
  c.yield(f.where(f.equal(x, 0), f.one("Neg", f.one("Reciprocal", x)), inside));
}

// ---- modified Bessel functions ------------------------------------------------------------------------------------

// Abramowitz and Stegun, 9.8.1 to 9.8.4, to 2e-7: below 3.75 a polynomial in (x / 3.75)^2; otherwise one in 3.75 / |x|,
// times exp(|x|) / sqrt(|x|). `scaled` multiplies the function by exp(-|x|).
void bessel(Ctx& c, bool first_order, bool scaled) {
  refuse_float64(c);
  const Formula f{c, c.output_dtype()};
  const Val x = self_as_result(c), size = f.one("Abs", x);
  const Val t = f.mul(size, 1 / 3.75), near = f.square(t), far = f.one("Reciprocal", t);
  Val low = first_order
                ? f.polynomial(near, {0.00032411, 0.00301532, 0.02658733, 0.15084934, 0.51498869, 0.87890594, 0.5})
                : f.polynomial(near, {0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1});
  Val high = first_order ? f.polynomial(far, {-0.00420059, 0.01787654, -0.02895312, 0.02282967, -0.01031555, 0.00163801,
                                              -0.00362018, -0.03988024, 0.39894228})
                         : f.polynomial(far, {0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565,
                                              0.00225319, 0.01328592, 0.39894228});
  high = f.two("Div", high, f.one("Sqrt", size));
  if (first_order) {  // an odd function
    low = f.two("Mul", low, x);
    high = f.two("Mul", high, f.one("Sign", x));
  }
  if (scaled) {
    low = f.two("Mul", low, f.one("Exp", f.one("Neg", size)));
  } else {
    high = f.two("Mul", high, f.one("Exp", size));
  }
  c.yield(f.where(f.less(size, 3.75), low, high));
}
void i0(Ctx& c) { bessel(c, false, false); }
void i0e(Ctx& c) { bessel(c, false, true); }
void i1(Ctx& c) { bessel(c, true, false); }
void i1e(Ctx& c) { bessel(c, true, true); }

const OpEntry kSpecial[] = {
    {"aten::digamma(Tensor self) -> Tensor", digamma},
    {"aten::erfinv(Tensor self) -> Tensor", erfinv},
    {"aten::i0(Tensor self) -> Tensor", i0},
    {"aten::lgamma(Tensor self) -> Tensor", lgamma},
    {"aten::special_entr(Tensor self) -> Tensor", entr},
    {"aten::special_erfcx(Tensor self) -> Tensor", erfcx},
    {"aten::special_i0e(Tensor self) -> Tensor", i0e},
    {"aten::special_i1(Tensor self) -> Tensor", i1},
    {"aten::special_i1e(Tensor self) -> Tensor", i1e},
    {"aten::special_log_ndtr(Tensor self) -> Tensor", log_ndtr},
    {"aten::special_modified_bessel_i0(Tensor self) -> Tensor", i0},
    {"aten::special_modified_bessel_i1(Tensor self) -> Tensor", i1},
    {"aten::special_xlog1py(Tensor self, Tensor other) -> Tensor", xlog1py},
    {"aten::special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor", xlog1py},
    {"aten::special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor", xlog1py},
    {"aten::xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor", xlogy},
    {"aten::xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor", xlogy},
    {"aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor", xlogy},
};

}  // namespace

OpFamily special_ops() { return kSpecial; }

}  // namespace whence::convert
