// Loss functions: a value for each element (or sample), which is kept, averaged or summed.
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "annotator/convert/axes.h"
#include "annotator/convert/float64_forms.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"

namespace whence::convert {
namespace {

// at::Reduction, PyTorch 2.13.
std::string reduction(Ctx& c) {
  const std::int64_t kind = c.integer("reduction");
  if (kind < 0 || kind > 2) c.refuse("an unknown reduction", "use 'none', 'mean' or 'sum'");
  const char* const names[] = {"none", "mean", "sum"};
  return names[kind];
}

Val reduced(Ctx& c, Val loss) {
  const std::string kind = reduction(c);
  if (kind == "none") return loss;
  return kind == "mean" ? reduce_mean(c, loss, {}, false) : reduce(c, "ReduceSum", loss, {}, false);
}

// The operands in the result's dtype.
struct Pair {
  Val input, target;
};

Pair read(Ctx& c) { return {c.cast(c.tensor("self"), c.output_dtype()), c.cast(c.tensor("target"), c.output_dtype())}; }

Val number(Ctx& c, double value) { return c.constant_number(value, c.output_dtype()); }

Val difference(Ctx& c) {
  const Pair pair = read(c);
  return c.emit("Sub", {pair.input, pair.target});
}

// (x - y)^2
void mse_loss(Ctx& c) {
  const Val d = difference(c);
  c.yield(reduced(c, c.emit("Mul", {d, d})));
}

// |x - y|
void l1_loss(Ctx& c) { c.yield(reduced(c, c.emit("Abs", {difference(c)}))); }

// scale * d^2 for |d| < bound, slope * (|d| - bound / 2) otherwise.
Val quadratic_then_linear(Ctx& c, double bound, double scale, double slope) {
  const Val d = c.emit("Abs", {difference(c)});
  const Val quadratic = c.emit("Mul", {c.emit("Mul", {d, d}), number(c, scale)});
  Val linear = c.emit("Sub", {d, number(c, bound / 2)});
  if (slope != 1) linear = c.emit("Mul", {linear, number(c, slope)});
  return c.emit("Where", {c.emit("Less", {d, number(c, bound)}), quadratic, linear});
}

void smooth_l1_loss(Ctx& c) {
  const double beta = c.number("beta");
  if (beta == 0) return l1_loss(c);
  c.yield(reduced(c, quadratic_then_linear(c, beta, 0.5 / beta, 1)));
}

void huber_loss(Ctx& c) {
  const double delta = c.number("delta");
  c.yield(reduced(c, quadratic_then_linear(c, delta, 0.5, delta)));
}

Val weighted(Ctx& c, Val loss) {
  const Val weight = c.optional_tensor("weight");
  return weight ? c.emit("Mul", {loss, c.cast(weight, c.output_dtype())}) : loss;
}

// -(y log x + (1 - y) log(1 - x)), with logarithms of at least -100
void binary_cross_entropy(Ctx& c) {
  const Pair pair = read(c);
  const Val one = number(c, 1), floor = number(c, -100);
  const auto log = [&](Val x) { return c.emit("Max", {c.emit("Log", {x}), floor}); };
  const Val hit = c.emit("Mul", {pair.target, log(pair.input)});
  const Val miss = c.emit("Mul", {c.emit("Sub", {one, pair.target}), log(c.emit("Sub", {one, pair.input}))});
  c.yield(reduced(c, weighted(c, c.emit("Neg", {c.emit("Add", {hit, miss})}))));
}

// (1 - y) x + softplus(-x); with a weight p for the positive class, (1 - y) x + (1 + (p - 1) y) softplus(-x)
void binary_cross_entropy_with_logits(Ctx& c) {
  const Pair pair = read(c);
  Val positive = c.optional_tensor("pos_weight");
  if (positive) positive = c.cast(positive, c.output_dtype());
  const Val one = number(c, 1);
  Val log = softplus_of(c, c.emit("Neg", {pair.input}));
  if (positive) {
    const Val factor = c.emit("Add", {one, c.emit("Mul", {c.emit("Sub", {positive, one}), pair.target})});
    log = c.emit("Mul", {factor, log});
  }
  const Val rest = c.emit("Mul", {c.emit("Sub", {one, pair.target}), pair.input});
  c.yield(reduced(c, weighted(c, c.emit("Add", {rest, log}))));
}

// y log y - y x, where 0 log 0 is 0; with log_target, y is passed as its logarithm
void kl_div(Ctx& c) {
  const Pair pair = read(c);
  if (c.flag("log_target")) {
    const Val log = c.emit("Sub", {pair.target, pair.input});
    return c.yield(reduced(c, c.emit("Mul", {c.emit("Exp", {pair.target}), log})));
  }
  const Val zero = number(c, 0);
  const Val none = c.emit("Equal", {pair.target, zero});
  const Val own = c.emit("Where", {none, zero, c.emit("Mul", {pair.target, c.emit("Log", {pair.target})})});
  c.yield(reduced(c, c.emit("Sub", {own, c.emit("Mul", {pair.target, pair.input})})));
}

// Target classes as indices: scores [N, C, *] or [C], target [N, *] or [].
void by_class(Ctx& c, std::string_view op_type) {
  Val scores = c.tensor("self"), target = c.tensor("target");
  const bool batched = c.rank(scores) > 1;
  if (!batched) {
    scores = c.unsqueeze(scores, {0});
    target = c.unsqueeze(target, {0});
  }
  std::vector<Val> inputs{scores, target};
  if (c.has("weight")) inputs.push_back(c.tensor("weight"));
  const std::string kind = reduction(c);
  const Val loss =
      c.emit(op_type, std::move(inputs), {{"ignore_index", c.integer("ignore_index")}, {"reduction", kind}});
  c.yield(batched || kind != "none" ? loss : c.squeeze(loss, {0}));
}

void nll_loss(Ctx& c) { by_class(c, "NegativeLogLikelihoodLoss"); }

// Class weights [C], shaped for axis `classes` of a tensor with `rank` axes.
Val weight_of_classes(Ctx& c, int rank, std::int64_t classes) {
  const Val weight = c.cast(c.tensor("weight"), c.output_dtype());
  Ints shape(static_cast<std::size_t>(rank), 1);
  shape[static_cast<std::size_t>(classes)] = -1;
  return c.emit("Reshape", {weight, c.constant_ints(shape)});
}

// Returns the number of classes over which label smoothing spreads a share of the loss.
double smoothed_classes(Ctx& c, Val scores, std::int64_t axis) {
  const auto count = c.static_dim(scores, axis);
  if (!count)
    c.refuse("label_smoothing over a dynamic number of classes is not supported", "keep the axis of the classes fixed");
  return static_cast<double>(*count);
}

// - sum of weight * target * log softmax over the classes. The mean is over samples, regardless of the weights.
void by_probability(Ctx& c, Val scores, Val target, double smoothing) {
  const DType dtype = c.output_dtype();
  const int rank = c.rank(scores);
  const std::int64_t classes = rank > 1 ? 1 : 0;
  if (smoothing > 0) {
    const Val share = c.constant_number(smoothing / smoothed_classes(c, scores, classes), dtype);
    target = c.emit("Add", {c.emit("Mul", {target, c.constant_number(1 - smoothing, dtype)}), share});
  }
  const Val log = c.emit("LogSoftmax", {scores}, {{"axis", classes}});
  Val product = c.emit("Mul", {target, log});
  if (c.has("weight")) product = c.emit("Mul", {product, weight_of_classes(c, rank, classes)});
  const Val each = c.typed(reduce(c, "ReduceSum", c.typed(product, dtype), {classes}, false), dtype);
  c.yield(c.emit("Neg", {rank == 1 ? each : reduced(c, each)}));
}

// Spreads a share e of the loss over all classes: (1 - e) * loss - e / C * sum over all classes of weight * log
// softmax. Ignored targets count in neither term; the mean divides by the weights of the other targets.
void smoothed(Ctx& c, double smoothing) {
  const DType dtype = c.output_dtype();
  Val scores = c.tensor("self"), target = c.tensor("target");
  const bool batched = c.rank(scores) > 1;
  if (!batched) scores = c.unsqueeze(scores, {0}), target = c.unsqueeze(target, {0});
  const int rank = c.rank(scores);
  const double count = smoothed_classes(c, scores, 1);
  const Val log = c.typed(c.emit("LogSoftmax", {scores}, {{"axis", 1}}), dtype, c.dims(scores));
  const Val ignored = c.constant_number(static_cast<double>(c.integer("ignore_index")), c.dtype(target));
  const Val counts = c.typed(c.emit("Not", {c.emit("Equal", {target, ignored})}), DType::boolean);
  std::vector<Val> inputs{log, target};
  Val all = log, weights = c.typed(c.cast(counts, dtype), dtype);
  if (c.has("weight")) {
    inputs.push_back(c.cast(c.tensor("weight"), dtype));
    all = c.emit("Mul", {log, weight_of_classes(c, rank, 1)});
    const Val safe = c.emit("Where", {counts, target, c.constant_number(0, c.dtype(target))});
    weights = c.emit("Mul", {c.emit("Gather", {inputs.back(), safe}), weights});
  }
  const Val own = c.emit("NegativeLogLikelihoodLoss", inputs,
                         {{"ignore_index", c.integer("ignore_index")}, {"reduction", std::string("none")}});
  const Val spread = c.emit("Mul", {reduce(c, "ReduceSum", c.typed(all, dtype), {1}, false), c.cast(counts, dtype)});
  const Val share = c.constant_number(-smoothing / count, dtype);
  Val loss =
      c.emit("Add", {c.emit("Mul", {own, c.constant_number(1 - smoothing, dtype)}), c.emit("Mul", {spread, share})});
  const std::string kind = reduction(c);
  if (kind == "none") return c.yield(batched ? loss : c.squeeze(loss, {0}));
  loss = reduce(c, "ReduceSum", c.typed(loss, dtype), {}, false);
  c.yield(kind == "sum" ? loss : c.emit("Div", {loss, reduce(c, "ReduceSum", c.typed(weights, dtype), {}, false)}));
}

// Target classes as indices, or as probabilities if the target is floating and shaped like the scores.
void cross_entropy_loss(Ctx& c) {
  const double smoothing = c.number("label_smoothing");
  const Val scores = c.tensor("self"), target = c.tensor("target");
  if (is_floating(c.dtype(target))) return by_probability(c, scores, target, smoothing);
  if (smoothing > 0) return smoothed(c, smoothing);
  by_class(c, "SoftmaxCrossEntropyLoss");
}

// Returns 0, 1, ... C - 1 for scores [N, C] or [C].
Ints class_numbers(Ctx& c, Val scores) {
  const auto count = c.static_dim(scores, -1);
  if (!count) c.refuse("the number of classes is dynamic", "keep the last axis of the scores fixed when exporting");
  Ints numbers(c.table_size({*count}));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// For scores x [N, C] or [C] with the target class y of each: the mean over the classes j of weight[y] * max(0, margin
// - x[y] + x[j])^p, where the term of y itself is 0.
void multi_margin_loss(Ctx& c) {
  const DType dtype = c.output_dtype();
  const Val scores = at_least_vector(c, c.tensor("self"));
  const int rank = c.rank(scores);
  const Ints classes = class_numbers(c, scores);
  const Val x = rank == 1 ? c.unsqueeze(scores, {0}) : scores;
  const Val right = c.reshape(c.cast(c.tensor("target"), DType::int64), {Size{-1}, Size{1}});
  Val loss = c.emit("Sub", {x, c.emit("GatherElements", {x, right}, {{"axis", 1}})});
  loss = c.emit("Max", {c.emit("Add", {loss, number(c, c.number("margin"))}), number(c, 0)});
  if (c.number("p") == 2) loss = c.emit("Mul", {loss, loss});
  if (const Val weight = c.optional_tensor("weight")) {
    loss = c.emit("Mul", {loss, c.emit("Gather", {c.cast(weight, dtype), right}, {{"axis", 0}})});
  }
  loss = c.emit("Where", {c.emit("Equal", {c.constant_ints(classes), right}), number(c, 0), loss});
  loss = reduced(c, reduce(c, "ReduceMean", loss, {1}, false));
  c.yield(reduction(c) == "none" && c.rank(c.tensor("target")) == 0 ? c.squeeze(loss, {0}) : loss);
}

// For scores x [N, C] or [C] with the target classes y of each, up to the first -1: the sum over these and over all
// other classes i of max(0, 1 - x[y] + x[i]), divided by C.
void multilabel_margin_loss(Ctx& c) {
  const DType dtype = c.output_dtype();
  const Val scores = at_least_vector(c, c.cast(c.tensor("self"), dtype));
  const Val target = at_least_vector(c, c.cast(c.tensor("target"), DType::int64));
  const int rank = c.rank(scores);
  const Ints classes = class_numbers(c, scores);
  const Val x = rank == 1 ? c.unsqueeze(scores, {0}) : scores, y = rank == 1 ? c.unsqueeze(target, {0}) : target;
  const auto as_number = [&](Val flag, DType as) { return c.typed(c.cast(c.typed(flag, DType::boolean), as), as); };
  const Val ends = as_number(c.emit("Less", {y, c.constant_int(0)}), DType::int32);
  const Val is_class =
      c.emit("Equal", {c.emit("CumSum", {ends, c.constant_int(1)}), c.constant_number(0, DType::int32)});
  const Val right = c.emit("Where", {is_class, y, c.constant_int(0)});
  // [N, right class, class]
  const Val counts = c.unsqueeze(is_class, {2});
  const Val same = c.emit("And", {counts, c.emit("Equal", {c.unsqueeze(right, {2}), c.constant_ints(classes)})});
  const Val is_target = reduce(c, "ReduceMax", as_number(same, dtype), {1}, true);
  const Val other = c.emit("And", {counts, c.emit("Equal", {is_target, number(c, 0)})});
  const Val score = c.unsqueeze(c.emit("GatherElements", {x, right}, {{"axis", 1}}), {2});
  const Val margin = c.emit("Add", {c.emit("Sub", {number(c, 1), score}), c.unsqueeze(x, {1})});
  const Val loss = c.emit("Where", {other, c.emit("Max", {margin, number(c, 0)}), number(c, 0)});
  const Val sum = c.typed(reduce(c, "ReduceSum", loss, {1, 2}, false), dtype);
  const Val result = reduced(c, c.emit("Div", {sum, number(c, static_cast<double>(classes.size()))}));
  const auto dims = c.output_dims();  // torch.export records [1] for a scalar result
  c.yield(reduction(c) == "none" && rank == 1 && dims && dims->empty() ? c.squeeze(result, {0}) : result);
}

const OpEntry kLoss[] = {
    {"aten::multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int "
     "reduction=1) -> Tensor",
     multi_margin_loss},
    {"aten::multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", multilabel_margin_loss},
    {"aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", mse_loss},
    {"aten::l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", l1_loss},
    {"aten::smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor", smooth_l1_loss},
    {"aten::huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor", huber_loss},
    {"aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
     binary_cross_entropy},
    {"aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, "
     "int reduction=1) -> Tensor",
     binary_cross_entropy_with_logits},
    {"aten::kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor", kl_div},
    {"aten::nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> "
     "Tensor",
     nll_loss},
    {"aten::nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) "
     "-> Tensor",
     nll_loss},
    {"aten::nll_loss2d(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> "
     "Tensor",
     nll_loss},
    {"aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
     "SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor",
     cross_entropy_loss},
};

}  // namespace

OpFamily loss_ops() { return kLoss; }

}  // namespace whence::convert
