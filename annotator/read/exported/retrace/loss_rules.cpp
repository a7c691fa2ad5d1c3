// Losses: of each element, then their mean or sum. Source: aten/src/ATen/native/Loss.cpp and
// torch/_decomp/decompositions.py of PyTorch 2.13.
#include <charconv>

#include "annotator/merge/python_text.h"
#include "annotator/read/exported/retrace/rule_helpers.h"

namespace whence {
namespace {

bool reduced(Retrace& t, const FxCall& c, const std::string& loss) {
  const std::int64_t reduction = c.integer("reduction", 1);
  if (reduction == 0) return t.yield(loss), true;
  return t.yield(t.emit(reduction == 1 ? "aten.mean.default" : "aten.sum.default", {loss})), true;
}

template <Text text>
bool loss(Retrace& t, const FxCall& c) {
  return reduced(t, c, emit_recipe(t, c, text.value));
}

std::string half_of(const FxCall& c, std::string_view name) {
  const std::string text = c.text(name, "1.0");
  double number = 1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return python_float(number / 2);
}

bool smooth_l1(Retrace& t, const FxCall& c) {
  return reduced(t, c,
                 emit_recipe(t, c,
                             "sub.Tensor $self $target; abs %1; lt.Scalar %2 $beta=1.0; pow.Tensor_Scalar %2 2; "
                             "mul.Tensor %4 0.5; div.Tensor %5 $beta=1.0; sub.Tensor %2 $half; where.self %3 %6 %7",
                             {{"half", half_of(c, "beta")}}));
}

bool huber(Retrace& t, const FxCall& c) {
  return reduced(t, c,
                 emit_recipe(t, c,
                             "sub.Tensor $self $target; abs %1; lt.Scalar %2 $delta=1.0; mul.Tensor %2 0.5; "
                             "mul.Tensor %4 %2; sub.Tensor %2 $half; mul.Tensor %6 $delta=1.0; where.self %3 %5 %7",
                             {{"half", half_of(c, "delta")}}));
}

bool kl_div(Retrace& t, const FxCall& c) {
  if (c.text("log_target") == "True") return loss<"sub.Tensor $target $self; exp $target; mul.Tensor %2 %1">(t, c);
  return loss<"mul.Tensor $target $self; xlogy.Tensor $target $target; sub.Tensor %2 %1">(t, c);
}

std::string weighted(Retrace& t, const FxCall& c, const std::string& loss) {
  const std::string weight = c.text("weight");
  return weight == "None" ? loss : t.emit("aten.mul.Tensor", {loss, weight});
}

bool cross_entropy_of_two(Retrace& t, const FxCall& c) {
  const std::string each =
      emit_recipe(t, c,
                  "sub.Tensor $target 1; neg $self; log1p %2; new_full $self [] -100 pin_memory:False; "
                  "maximum %3 %4; mul.Tensor %1 %5; log $self; new_full $self [] -100 pin_memory:False; "
                  "maximum %7 %8; mul.Tensor $target %9; sub.Tensor %6 %10");
  return reduced(t, c, weighted(t, c, each));
}

bool cross_entropy_of_two_logits(Retrace& t, const FxCall& c) {
  const std::string_view plain = "sub.Tensor 1 $target; mul.Tensor %1 $self; log_sigmoid $self; sub.Tensor %2 %3";
  const std::string_view of_positives =
      "sub.Tensor $pos_weight 1; mul.Tensor %1 $target; add.Tensor %2 1; sub.Tensor 1 $target; mul.Tensor %4 $self; "
      "log_sigmoid $self; mul.Tensor %3 %6; sub.Tensor %5 %7";
  return reduced(t, c, weighted(t, c, emit_recipe(t, c, c.text("pos_weight") == "None" ? plain : of_positives)));
}

bool poisson(Retrace& t, const FxCall& c) {
  if (c.text("full") == "True") return false;
  if (c.text("log_input") == "True") {
    return loss<"mul.Tensor $target $input; exp $input; sub.Tensor %2 %1">(t, c);
  }
  return loss<"add.Scalar $input $eps; log %1; mul.Tensor $target %2; sub.Tensor $input %3">(t, c);
}

// Over the last axis.
std::string innermost(Retrace& t, const FxCall& c) {
  return list_text({std::max<std::int64_t>(t.facts(self(c)).rank() - 1, 0)});
}

bool triplet(Retrace& t, const FxCall& c) {
  if (c.text("swap", "False") == "True") return false;
  return reduced(t, c,
                 emit_recipe(t, c,
                             "sub.Tensor $anchor $positive; add.Scalar %1 $eps=1e-06; "
                             "linalg_vector_norm %2 $p=2.0 $axes; sub.Tensor $anchor $negative; "
                             "add.Scalar %4 $eps=1e-06; linalg_vector_norm %5 $p=2.0 $axes; "
                             "add.Scalar %3 $margin=1.0; sub.Tensor %7 %6; clamp_min %8 0",
                             {{"axes", innermost(t, c)}}));
}

bool cosine_embedding(Retrace& t, const FxCall& c) {
  return reduced(
      t, c,
      emit_recipe(t, c,
                  "mul.Tensor $input1 $input2; sum.dim_IntList %1 $axes; mul.Tensor $input1 $input1; "
                  "sum.dim_IntList %3 $axes; add.Scalar %4 9.999999960041972e-13; mul.Tensor $input2 $input2; "
                  "sum.dim_IntList %6 $axes; add.Scalar %7 9.999999960041972e-13; mul.Tensor %5 %8; sqrt %9; "
                  "div.Tensor %2 %10; zeros_like %11 memory_format:torch.contiguous_format; "
                  "empty_like %11 memory_format:torch.preserve_format; fill.Scalar %13 1; sub.Tensor %14 %11; "
                  "sub.Scalar %11 $margin=0.0; clamp_min %16 0; eq.Scalar $target 1; where.self %18 %15 %12; "
                  "eq.Scalar $target -1; where.self %20 %17 %12; add.Tensor %19 %21",
                  {{"axes", innermost(t, c)}}));
}

// Of classes of whole rows; pictures of classes are taken apart.
bool nll(Retrace& t, const FxCall& c) {
  if (t.facts(self(c)).rank() > 2) return false;
  Retrace::Arguments arguments;
  for (const FxCall::Given& given : c.given) arguments.push_back(given.text);
  return t.yield(t.emit("aten.nll_loss.default", arguments)), true;
}

constexpr auto table = std::to_array<RuleRow>({
    {"aten.binary_cross_entropy", cross_entropy_of_two},
    {"aten.binary_cross_entropy_with_logits", cross_entropy_of_two_logits},
    {"aten.cosine_embedding_loss", cosine_embedding},
    {"aten.hinge_embedding_loss",
     loss<"zeros_like $self memory_format:torch.contiguous_format; "
          "empty_like $self memory_format:torch.preserve_format; fill.Scalar %2 $margin=1.0; sub.Tensor %3 $self; "
          "clamp_min %4 0; ne.Scalar $target 1; where.self %6 %5 %1; ne.Scalar $target -1; where.self %8 $self %1; "
          "add.Tensor %7 %9">},
    {"aten.huber_loss", huber},
    {"aten.kl_div", kl_div},
    {"aten.l1_loss", loss<"sub.Tensor $self $target; abs %1">},
    {"aten.margin_ranking_loss",
     loss<"sub.Tensor $input1 $input2; neg $target; mul.Tensor %2 %1; add.Scalar %3 $margin=0.0; clamp_min %4 0">},
    {"aten.nll_loss_nd", nll},
    {"aten.poisson_nll_loss", poisson},
    {"aten.smooth_l1_loss", smooth_l1},
    {"aten.soft_margin_loss", loss<"neg $self; mul.Tensor %1 $target; exp %2; log1p %3">},
    {"aten.triplet_margin_loss", triplet},
});

}  // namespace

std::span<const RuleRow> loss_rules() { return table; }

}  // namespace whence
