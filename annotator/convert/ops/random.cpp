// Random numbers and dropout. A runtime draws its own numbers, so only shape, dtype and distribution agree with
// PyTorch. ONNX draws only floating numbers; integers are computed from uniform numbers.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/convert/dropout.h"
#include "annotator/convert/float64_forms.h"
#include "annotator/convert/ops/families.h"

namespace whence::convert {
namespace {

// Returns ONNX's number of a dtype, for attributes.
std::int64_t onnx_dtype(DType dtype) { return to_onnx(dtype); }

struct Draw {
  const char* fixed;  // operator that takes its shape as an attribute
  const char* like;   // operator that takes it from a tensor
  Attributes parameters;
};

Draw uniform_draw(double low, double high) {
  Draw draw{"RandomUniform", "RandomUniformLike", {}};
  if (high != 1) draw.parameters.push_back({"high", static_cast<float>(high)});
  if (low != 0) draw.parameters.push_back({"low", static_cast<float>(low)});
  return draw;
}

Draw normal_draw(double mean, double scale) {
  Draw draw{"RandomNormal", "RandomNormalLike", {}};
  if (mean != 0) draw.parameters.push_back({"mean", static_cast<float>(mean)});
  if (scale != 1) draw.parameters.push_back({"scale", static_cast<float>(scale)});
  return draw;
}

Val drawn_like(Ctx& c, Val model, Draw draw, DType dtype) {
  draw.parameters.insert(draw.parameters.begin(), {"dtype", onnx_dtype(dtype)});
  return c.typed(c.emit(draw.like, {model}, std::move(draw.parameters)), dtype);
}

Val drawn(Ctx& c, const std::vector<Size>& sizes, Draw draw, DType dtype) {
  Ints fixed;
  for (const Size& size : sizes) {
    const auto known = c.static_size(size);
    if (!known) return drawn_like(c, c.emit("ConstantOfShape", {c.to_vector(sizes)}), std::move(draw), dtype);
    fixed.push_back(*known);
  }
  draw.parameters.insert(draw.parameters.begin(), {"dtype", onnx_dtype(dtype)});
  draw.parameters.push_back({"shape", fixed});
  return c.typed(c.emit(draw.fixed, {}, std::move(draw.parameters)), dtype);
}

void rand(Ctx& c) { c.yield(drawn(c, c.sizes("size"), uniform_draw(0, 1), c.output_dtype())); }
void randn(Ctx& c) { c.yield(drawn(c, c.sizes("size"), normal_draw(0, 1), c.output_dtype())); }
void rand_like(Ctx& c) { c.yield(drawn_like(c, c.tensor("self"), uniform_draw(0, 1), c.output_dtype())); }
void randn_like(Ctx& c) { c.yield(drawn_like(c, c.tensor("self"), normal_draw(0, 1), c.output_dtype())); }

// Uniform over [from, to), or normal with the given mean and deviation, shaped like `self`.
void uniform(Ctx& c) {
  c.yield(drawn_like(c, c.tensor("self"), uniform_draw(c.number("from"), c.number("to")), c.output_dtype()));
}
void normal_functional(Ctx& c) {
  c.yield(drawn_like(c, c.tensor("self"), normal_draw(c.number("mean"), c.number("std")), c.output_dtype()));
}

// ---- other distributions, computed from uniform or normal numbers ---------------------------------------------------

// The dtype to compute in: narrow ones have no number between 0 and the smallest that is drawn.
DType wide(Ctx& c) { return c.output_dtype() == DType::float64 ? DType::float64 : DType::float32; }

// log(u) for u in (0, 1); log(0) would be infinite.
Val log_of_uniform(Ctx& c) { return c.emit("Log", {drawn_like(c, c.tensor("self"), uniform_draw(1e-20, 1), wide(c))}); }

Val wide_number(Ctx& c, double number) { return c.constant_number(number, wide(c)); }

// -log(u) / lambd
void exponential(Ctx& c) { c.yield(c.emit("Div", {log_of_uniform(c), wide_number(c, -c.number("lambd"))})); }

// The number of trials up to the first success: ceil(log(u) / log(1 - p)), but at least 1.
void geometric(Ctx& c) {
  const Val trials = c.emit("Div", {log_of_uniform(c), wide_number(c, std::log1p(-c.number("p")))});
  c.yield(c.cast(c.typed(c.emit("Max", {c.emit("Ceil", {trials}), wide_number(c, 1)}), wide(c)), c.output_dtype()));
}

// median + sigma * tan(pi * (u - 1/2))
void cauchy(Ctx& c) {
  constexpr double quarter_turn = std::numbers::pi / 2;
  const Val angle = drawn_like(c, c.tensor("self"), uniform_draw(-quarter_turn, quarter_turn), wide(c));
  const Val spread = c.emit("Mul", {tan_of(c, angle), wide_number(c, c.number("sigma"))});
  c.yield(c.emit("Add", {spread, wide_number(c, c.number("median"))}));
}

void log_normal(Ctx& c) {
  const Draw draw = normal_draw(c.number("mean"), c.number("std"));
  c.yield(c.emit("Exp", {drawn_like(c, c.tensor("self"), draw, wide(c))}));
}

// ---- integers in [low, high) ----------------------------------------------------------------------------------------

Draw integer_draw(Ctx& c) {
  const std::int64_t low = c.schema().find("low") ? c.integer("low") : 0;
  return uniform_draw(static_cast<double>(low), static_cast<double>(c.integer("high")));
}

// Takes float64: float32 has no odd numbers above 2^24, and rounds the largest numbers below `high` up to it.
Val rounded_down(Ctx& c, Val uniform) {
  return c.cast(c.typed(c.emit("Floor", {uniform}), DType::float64), c.output_dtype());
}

void randint(Ctx& c) { c.yield(rounded_down(c, drawn(c, c.sizes("size"), integer_draw(c), DType::float64))); }
void randint_like(Ctx& c) {
  c.yield(rounded_down(c, drawn_like(c, c.tensor("self"), integer_draw(c), DType::float64)));
}

// Returns the end of the integers that PyTorch draws for a dtype; for a floating dtype, those it represents without
// gaps.
double end_of_integers(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return 2;
    case DType::float16:
      return 0x1p11 + 1;
    case DType::bfloat16:
      return 0x1p8 + 1;
    case DType::float32:
      return 0x1p24 + 1;
    case DType::float64:
      return 0x1p53 + 1;
    default:
      return std::ldexp(1, 8 * static_cast<int>(size_of(dtype)) - (dtype == DType::uint8 ? 0 : 1));
  }
}

// Draws from the integers from `from` on that the dtype represents without gaps, or from those below `to`.
void random_integers(Ctx& c, std::int64_t from, std::optional<std::int64_t> to) {
  const double high = to ? static_cast<double>(*to) : end_of_integers(c.output_dtype());
  const Draw draw = uniform_draw(static_cast<double>(from), high);
  c.yield(rounded_down(c, drawn_like(c, c.tensor("self"), draw, DType::float64)));
}

void random(Ctx& c) { random_integers(c, 0, std::nullopt); }
void random_to(Ctx& c) { random_integers(c, 0, c.integer("to")); }
void random_from(Ctx& c) {
  random_integers(c, c.integer("from"), c.has("to") ? std::optional(c.integer("to")) : std::nullopt);
}

// The indices that sort n uniform numbers.
void randperm(Ctx& c) {
  const Size n = c.size("n");
  const Val numbers = drawn(c, {n}, uniform_draw(0, 1), DType::float32);
  const auto ranked = c.emit_many("TopK", {numbers, c.to_vector({n})}, {}, 2);
  c.yield(c.cast(c.typed(ranked[1], DType::int64), c.output_dtype()));
}

// ---- normal numbers with tensors as parameters ----------------------------------------------------------------------

void normal_tensor_tensor(Ctx& c) {
  const Val mean = c.tensor("mean"), std = c.tensor("std");
  const DType dtype = c.output_dtype();
  // Both broadcast, so the numbers are drawn for their common shape.
  const bool are_alike = std::ranges::equal(c.dims(mean), c.dims(std), same_length);
  const Val shape = are_alike ? mean : c.emit("Add", {mean, std});
  c.yield(c.emit("Add", {mean, c.emit("Mul", {std, drawn_like(c, shape, normal_draw(0, 1), dtype)})}));
}

void normal_tensor_float(Ctx& c) {
  const Val mean = c.tensor("mean");
  c.yield(c.emit("Add", {mean, drawn_like(c, mean, normal_draw(0, c.number("std")), c.output_dtype())}));
}

void normal_float_tensor(Ctx& c) {
  const Val std = c.tensor("std");
  const Val noise = c.emit("Mul", {std, drawn_like(c, std, normal_draw(0, 1), c.output_dtype())});
  const double mean = c.number("mean");
  c.yield(mean == 0 ? noise : c.emit("Add", {noise, c.constant_number(mean, c.output_dtype())}));
}

void normal_float_float(Ctx& c) {
  c.yield(drawn(c, c.sizes("size"), normal_draw(c.number("mean"), c.number("std")), c.output_dtype()));
}

// ---- choices --------------------------------------------------------------------------------------------------------

// 1 with probability p, element by element.
Val less_than(Ctx& c, Val model, Val probability, DType dtype) {
  const Val hit = c.emit("Less", {drawn_like(c, model, uniform_draw(0, 1), dtype), probability});
  return c.cast(c.typed(hit, DType::boolean), c.output_dtype());
}

// Not ONNX's Bernoulli: its defining function, which runtimes expand, gives 1 with probability 1 - p.
void bernoulli(Ctx& c) {
  const Val p = c.tensor("self");
  c.yield(less_than(c, p, p, c.dtype(p)));
}

void bernoulli_p(Ctx& c) {
  c.yield(less_than(c, c.tensor("self"), c.constant_number(c.number("p"), DType::float32), DType::float32));
}

void bernoulli_tensor(Ctx& c) {
  const Val p = c.tensor("p");
  c.yield(less_than(c, c.tensor("self"), p, c.dtype(p)));
}

// Indices drawn with the given weights, [n] or [rows, n]. Without replacement, the indices of the largest log(weight)
// plus Gumbel noise are such a sample (Gumbel-max trick).
void multinomial(Ctx& c) {
  const Val weights = c.tensor("self");
  const DType dtype = c.dtype(weights);
  const std::int64_t samples = c.integer("num_samples");
  const bool one_row = c.rank(weights) == 1;
  const Val log = c.emit("Log", {one_row ? c.unsqueeze(weights, {0}) : weights});
  Val chosen;
  if (c.flag("replacement") || samples == 1) {
    // Runtimes draw only with 32-bit weights.
    const Val narrow = c.cast(log, DType::float32);
    chosen = c.emit("Multinomial", {narrow}, {{"dtype", onnx_dtype(DType::int64)}, {"sample_size", samples}});
  } else {
    // -log(-log(u)) for u in (0, 1); 0 itself would give infinite noise
    const Val u = drawn_like(c, log, uniform_draw(1e-20, 1), dtype);
    const Val noise = c.emit("Log", {c.emit("Neg", {c.emit("Log", {u})})});
    chosen = c.emit_many("TopK", {c.emit("Sub", {log, noise}), c.constant_ints({samples})}, {}, 2)[1];
  }
  c.yield(one_row ? c.squeeze(chosen, {0}) : chosen);
}

// ---- dropout --------------------------------------------------------------------------------------------------------

void dropout(Ctx& c) {
  const Val x = c.tensor("input");
  c.yield(c.flag("train") ? training_dropout(c, x, c.number("p")) : x);
}

void native_dropout(Ctx& c) {
  const Val x = c.tensor("input");
  if (!c.has("train") || c.flag("train")) return c.yield(training_dropout_with_mask(c, x, c.number("p")));
  c.yield({x, absent});
}

// Kinds of dropout that ONNX lacks; the identity in evaluation mode.
void evaluation_dropout(Ctx& c) {
  if (c.flag("train") && c.number("p") != 0) {
    c.refuse("this kind of dropout in training mode is not supported", "call model.eval() before recording");
  }
  c.yield(c.tensor("input"));
}

const OpEntry kRandom[] = {
    {"aten::rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     rand},
    {"aten::randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     randn},
    {"aten::rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     rand_like},
    {"aten::randn_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     randn_like},
    {"aten::uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor", uniform},
    {"aten::normal_functional(Tensor self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor",
     normal_functional},
    {"aten::randint(SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     randint},
    {"aten::randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     randint},
    {"aten::randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     randint_like},
    {"aten::randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     randint_like},
    {"aten::randperm(SymInt n, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     randperm},
    {"aten::normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
     normal_tensor_tensor},
    {"aten::normal.Tensor_float(Tensor mean, float std=1., *, Generator? generator=None) -> Tensor",
     normal_tensor_float},
    {"aten::normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor", normal_float_tensor},
    {"aten::normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, "
     "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     normal_float_float},
    {"aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor", bernoulli},
    {"aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor", bernoulli_p},
    {"aten::bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor", bernoulli_tensor},
    {"aten::cauchy(Tensor self, float median=0., float sigma=1., *, Generator? generator=None) -> Tensor", cauchy},
    {"aten::exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor", exponential},
    {"aten::geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor", geometric},
    {"aten::log_normal(Tensor self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor", log_normal},
    {"aten::random(Tensor self, *, Generator? generator=None) -> Tensor", random},
    {"aten::random.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor", random_from},
    {"aten::random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor", random_to},
    {"aten::multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> "
     "Tensor",
     multinomial},
    {"aten::dropout(Tensor input, float p, bool train) -> Tensor", dropout},
    {"aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)", native_dropout},
    {"aten::alpha_dropout(Tensor input, float p, bool train) -> Tensor", evaluation_dropout},
    {"aten::feature_dropout(Tensor input, float p, bool train) -> Tensor", evaluation_dropout},
    {"aten::feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor", evaluation_dropout},
};

}  // namespace

OpFamily random_ops() { return kRandom; }

}  // namespace whence::convert
