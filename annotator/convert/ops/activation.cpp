// Activation functions. All work element by element on floating tensors unless stated otherwise; formulas are those of
// torch.nn.functional.
#include <cmath>
#include <numbers>

#include "annotator/convert/float64_forms.h"
#include "annotator/convert/ops/elementwise.h"
#include "annotator/convert/ops/families.h"

namespace whence::convert {
namespace {

// A constant of the result's dtype.
Val number(Ctx& c, double value) { return c.constant_number(value, c.output_dtype()); }

// Returns true if the operator itself can be used. Runtimes expand some operators as functions of others, which they
// have only in 32 bits or fewer.
bool has_function(Ctx& c, int since) { return c.opset() >= since && c.output_dtype() != DType::float64; }

// x * Phi(x), with Phi computed by Erf in the form that runtimes recognise and fuse.
Val gelu_erf(Ctx& c, Val x) {
  const Val erf = c.emit("Erf", {c.emit("Div", {x, number(c, std::numbers::sqrt2)})});
  return c.emit("Mul", {c.emit("Mul", {x, c.emit("Add", {erf, number(c, 1)})}), number(c, 0.5)});
}

// x * Phi(x), with Phi approximated by tanh(sqrt(2 / pi) * (x + 0.044715 x^3)).
Val gelu_tanh(Ctx& c, Val x) {
  const Val cube = c.emit("Mul", {c.emit("Pow", {x, number(c, 3)}), number(c, 0.044715)});
  const Val inner = c.emit("Mul", {c.emit("Add", {x, cube}), number(c, std::sqrt(2 / std::numbers::pi))});
  const Val phi = c.emit("Add", {c.emit("Tanh", {inner}), number(c, 1)});
  return c.emit("Mul", {c.emit("Mul", {x, number(c, 0.5)}), phi});
}

// ONNX Gelu from opset 20, else the Erf or Tanh form.
void gelu(Ctx& c) {
  const Val x = c.tensor("self");
  const std::string mode = c.one_of("approximate", {"none", "tanh"});
  if (has_function(c, 20)) return c.yield(c.emit("Gelu", {x}, {{"approximate", mode}}));
  c.yield(mode == "tanh" ? gelu_tanh(c, x) : gelu_erf(c, x));
}

// max(x, 0); also for integers, for which runtimes have Max but not Relu.
void relu(Ctx& c) {
  const Val x = c.tensor("self");
  if (is_floating(c.dtype(x))) return c.yield(c.emit("Relu", {x}));
  const DType dtype = arithmetic_dtype(c.dtype(x));
  c.yield(c.emit("Max", {c.cast(x, dtype), c.constant_number(0, dtype)}));
}

void relu6(Ctx& c) { c.yield(c.emit("Clip", {self_as_result(c), number(c, 0), number(c, 6)})); }

void hardtanh(Ctx& c) {
  const DType dtype = c.output_dtype();
  c.yield(c.emit("Clip", {self_as_result(c), c.scalar("min_val", dtype), c.scalar("max_val", dtype)}));
}

void silu(Ctx& c) {
  const Val x = c.tensor("self");
  c.yield(c.emit("Mul", {x, c.emit("Sigmoid", {x})}));
}

// log(1 + exp(beta x)) / beta, and x itself where beta x > threshold. In 32 bits or fewer both agree from 20 on, so the
// default threshold needs no Where.
void softplus(Ctx& c) {
  const Val x = c.tensor("self");
  const double beta = c.number("beta"), threshold = c.number("threshold");
  const Val scaled = beta == 1 ? x : c.emit("Mul", {x, number(c, beta)});
  Val y = softplus_of(c, scaled);
  if (beta != 1) y = c.emit("Div", {y, number(c, beta)});
  if (threshold < 20 || c.output_dtype() == DType::float64) {
    y = c.emit("Where", {c.emit("Greater", {scaled, number(c, threshold)}), x, y});
  }
  c.yield(y);
}

// log(sigmoid(x)) as -softplus(-x), which does not underflow.
void log_sigmoid(Ctx& c) { c.yield(c.emit("Neg", {softplus_of(c, c.emit("Neg", {c.tensor("self")}))})); }

Val scaled(Ctx& c, Val x, double factor) { return factor == 1 ? x : c.emit("Mul", {x, number(c, factor)}); }

// x where x > 0, alpha * (exp(x) - 1) elsewhere. Runtimes have no Elu in float64, so there it is composed, which also
// keeps alpha in float64.
Val elu_of(Ctx& c, Val x, double alpha) {
  if (c.output_dtype() != DType::float64) return c.emit("Elu", {x}, {{"alpha", static_cast<float>(alpha)}});
  const Val zero = number(c, 0);
  const Val curve = c.emit("Sub", {c.emit("Exp", {c.emit("Min", {x, zero})}), number(c, 1)});
  return c.emit("Where", {c.emit("Greater", {x, zero}), x, scaled(c, curve, alpha)});
}

// scale * x where x > 0, scale * alpha * (exp(input_scale * x) - 1) elsewhere.
void elu(Ctx& c) {
  const Val x = c.tensor("self");
  const double input_scale = c.number("input_scale");
  Val y = elu_of(c, scaled(c, x, input_scale), c.number("alpha"));
  if (input_scale != 1) y = c.emit("Where", {c.emit("Greater", {x, number(c, 0)}), x, y});
  c.yield(scaled(c, y, c.number("scale")));
}

// elu with the alpha and scale of Klambauer et al. 2017, as in ATen.
void selu(Ctx& c) {
  if (c.output_dtype() != DType::float64) return c.yield(c.emit("Selu", {c.tensor("self")}));
  constexpr double alpha = 1.6732632423543772848170429916717, scale = 1.0507009873554804934193349852946;
  c.yield(scaled(c, elu_of(c, c.tensor("self"), alpha), scale));
}

// max(0, x) + min(0, alpha * (exp(x / alpha) - 1)) = alpha * elu(x / alpha). ONNX Celu exists for float32 only.
void celu(Ctx& c) {
  const Val x = c.tensor("self");
  const double alpha = c.number("alpha");
  if (alpha == 1) return c.yield(elu_of(c, x, 1));
  if (c.output_dtype() == DType::float32) {
    return c.yield(c.emit("Celu", {x}, {{"alpha", static_cast<float>(alpha)}}));
  }
  c.yield(scaled(c, elu_of(c, c.emit("Div", {x, number(c, alpha)}), 1), alpha));
}

void leaky_relu(Ctx& c) { c.yield(leaky_relu_of(c, c.tensor("self"), c.number("negative_slope"))); }

// x where x > 0, weight * x elsewhere. weight [C] or [1] belongs to axis 1 of self [N, C, *].
void prelu(Ctx& c) {
  const Val x = c.tensor("self");
  Val slope = c.tensor("weight");
  if (c.rank(x) == 0 && c.rank(slope) == 1) slope = c.squeeze(slope, {0});
  const int trailing = c.rank(x) - 2;
  if (trailing > 0 && c.rank(slope) == 1 && c.static_dim(slope, 0) != 1) {
    Ints axes;
    for (int i = 1; i <= trailing; ++i) axes.push_back(i);
    slope = c.unsqueeze(slope, axes);
  }
  c.yield(prelu_of(c, x, slope));
}

// The weight already has a shape that broadcasts.
void prelu_kernel(Ctx& c) { c.yield(prelu_of(c, c.tensor("self"), c.tensor("weight"))); }

// a * sigmoid(b), where a and b are the halves of self along dim.
void glu(Ctx& c) {
  const Val x = c.tensor("self");
  Attributes attributes{{"axis", c.axis(c.integer("dim"), c.rank(x))}};
  if (c.opset() >= 18) attributes.push_back({"num_outputs", 2});
  const std::vector<Val> halves = c.emit_many("Split", {x}, attributes, 2);
  c.yield(c.emit("Mul", {halves[0], c.emit("Sigmoid", {halves[1]})}));
}

void hardsigmoid(Ctx& c) { c.yield(hard_sigmoid_of(c, c.tensor("self"))); }

void hardswish(Ctx& c) {
  const Val x = c.tensor("self");
  c.yield(has_function(c, 14) ? c.emit("HardSwish", {x}) : c.emit("Mul", {x, hard_sigmoid_of(c, x)}));
}

// x * tanh(softplus(x))
void mish(Ctx& c) {
  const Val x = c.tensor("self");
  if (has_function(c, 18)) return c.yield(c.emit("Mish", {x}));
  c.yield(c.emit("Mul", {x, c.emit("Tanh", {softplus_of(c, x)})}));
}

// x moved towards zero by `bias` where |x| > lambd, 0 elsewhere. NaN stays NaN, but Shrink gives 0 for it.
void shrink(Ctx& c, float bias) {
  const Val x = c.tensor("self");
  const Val moved = c.emit("Shrink", {x}, {{"lambd", static_cast<float>(c.number("lambd"))}, {"bias", bias}});
  c.yield(c.emit("Where", {c.emit("IsNaN", {x}), x, moved}));
}
void softshrink(Ctx& c) { shrink(c, static_cast<float>(c.number("lambd"))); }
void hardshrink(Ctx& c) { shrink(c, 0); }

// value where x <= threshold, x elsewhere (NaN included).
void threshold(Ctx& c) {
  const Val x = c.tensor("self");
  const DType dtype = c.output_dtype();
  const Val low = c.emit("LessOrEqual", {x, c.scalar("threshold", dtype)});
  c.yield(c.emit("Where", {low, c.scalar("value", dtype), x}));
}

// log(x / (1 - x)); x is first clamped to [eps, 1 - eps] if eps is not None.
void logit(Ctx& c) {
  Val x = self_as_result(c);
  if (c.has("eps")) {
    const double eps = c.number("eps");
    x = c.emit("Clip", {x, number(c, eps), number(c, 1 - eps)});
  }
  c.yield(c.emit("Log", {c.emit("Div", {x, c.emit("Sub", {number(c, 1), x})})}));
}

// In evaluation mode the slope is the mean of its distribution.
Val mean_slope(Ctx& c) {
  if (c.flag("training")) c.refuse("rrelu draws its slopes while training", "export the model in evaluation mode");
  const double slope = (c.number("lower") + c.number("upper")) / 2;
  return leaky_relu_of(c, c.tensor("self"), slope);
}
void rrelu(Ctx& c) { c.yield(mean_slope(c)); }
void rrelu_with_noise(Ctx& c) { c.yield({mean_slope(c), c.result_used(1) ? c.tensor("noise") : absent}); }

const OpEntry kActivation[] = {
    {"aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor", prelu_kernel},
    {"aten::celu(Tensor self, Scalar alpha=1.) -> Tensor", celu},
    {"aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", elu},
    {"aten::gelu(Tensor self, *, str approximate='none') -> Tensor", gelu},
    {"aten::glu(Tensor self, int dim=-1) -> Tensor", glu},
    {"aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", hardshrink},
    {"aten::hardsigmoid(Tensor self) -> Tensor", hardsigmoid},
    {"aten::hardswish(Tensor self) -> Tensor", hardswish},
    {"aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", hardtanh},
    {"aten::rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar "
     "upper=0.33333333333333331, bool training=False, Generator? generator=None) -> (Tensor, Tensor noise_out)",
     rrelu_with_noise},
    {"aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, "
     "Generator? generator=None) -> Tensor",
     rrelu},
    {"aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", leaky_relu},
    {"aten::log_sigmoid(Tensor self) -> Tensor", log_sigmoid},
    {"aten::logit(Tensor self, float? eps=None) -> Tensor", logit},
    {"aten::mish(Tensor self) -> Tensor", mish},
    {"aten::prelu(Tensor self, Tensor weight) -> Tensor", prelu},
    {"aten::relu(Tensor self) -> Tensor", relu},
    {"aten::relu6(Tensor self) -> Tensor", relu6},
    {"aten::selu(Tensor self) -> Tensor", selu},
    {"aten::sigmoid(Tensor self) -> Tensor", direct<"Sigmoid">},
    {"aten::silu(Tensor self) -> Tensor", silu},
    {"aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", softplus},
    {"aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", softshrink},
    {"aten::tanh(Tensor self) -> Tensor", direct<"Tanh">},
    {"aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor", threshold},
};

}  // namespace

OpFamily activation_ops() { return kActivation; }

}  // namespace whence::convert
