// One run of a tool quantises and folds all tensors in one way. Chooses the way that gives most tensors, where a
// tensor's own bytes allow several: weights of a new model may distinguish them.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "annotator/derivation/deriver.h"
#include "annotator/derivation/element_views.h"

namespace whence::derivation {
namespace {

// Returns the variance of the first norm that was folded into an expression, as text; empty without a norm.
std::string norm_text(const Expression& expression) {
  if (std::holds_alternative<FoldStep>(expression.step)) return to_text(expression.inputs.back());
  for (const Expression& input : expression.inputs) {
    if (std::string norm = norm_text(input); !norm.empty()) return norm;
  }
  return {};
}

Expression with_arithmetic(Expression expression, FoldArithmetic arithmetic) {
  if (auto* const fold = std::get_if<FoldStep>(&expression.step)) fold->arithmetic = arithmetic;
  for (Expression& input : expression.inputs) input = with_arithmetic(std::move(input), arithmetic);
  return expression;
}

}  // namespace

void Deriver::choose_scale_rules() {
  constexpr std::size_t rules = 4;
  const auto has = [](const Scheme& scheme, std::size_t rule) { return scheme.follows(static_cast<ScaleRule>(rule)); };
  const auto step_of = [](Derivation& each) {
    return each.expression ? std::get_if<QuantiseStep>(&each.expression->step) : nullptr;
  };
  std::map<Layout, std::vector<Scheme>> schemes;
  for (Derivation& each : found_) {
    const QuantiseStep* const step = step_of(each);
    if (step != nullptr && step->part == QuantiseStep::Part::scales)
      schemes[step->scheme.layout].push_back(step->scheme);
  }
  for (Derivation& each : found_) {
    QuantiseStep* const step = step_of(each);
    if (step == nullptr) continue;
    const auto& all = schemes[step->scheme.layout];
    // ONNX Runtime's quantiser in Python computes in double precision, that of blocks in C++ in single. A tie, which
    // weights of a new model give, goes to that rule.
    const bool is_plain = step->scheme.layout == Layout::plain;
    const auto usual = static_cast<std::size_t>(is_plain ? ScaleRule::range_in_double : ScaleRule::range_in_float);
    const auto count = [&](std::size_t rule) {
      const auto fitting = std::ranges::count_if(all, [&](const Scheme& scheme) { return has(scheme, rule); });
      return static_cast<double>(fitting) * (rule == usual ? 1.1 : 1.0);
    };
    std::size_t common = usual, own = static_cast<std::size_t>(step->scheme.scale_rule);
    for (std::size_t rule = 0; rule < rules; ++rule) {
      if (count(rule) > count(common)) common = rule;
      if (has(step->scheme, rule) && count(rule) > count(own)) own = rule;
    }
    step->scheme.scale_rule = static_cast<ScaleRule>(own);
    const bool is_rare = own != common && count(own) < count(common);
    if (is_rare && step->part == QuantiseStep::Part::scales) {
      // A norm that was folded in another arithmetic may give the same scale by another rule.
      const auto weight = std::ranges::find(tensors_.quantised(), number_of(each), &QuantisedWeight::scales);
      if (weight != tensors_.quantised().end() && find_by_rule(*weight, static_cast<ScaleRule>(common))) continue;
      each = {Verdict::unaccounted, {}, "its scale follows another rule than those of the other tensors", each.bytes};
    }
  }
}

void Deriver::choose_roundings() {
  std::map<std::pair<Layout, int>, std::vector<QuantiseStep*>> steps;
  for (Derivation& each : found_) {
    auto* const step = each.expression ? std::get_if<QuantiseStep>(&each.expression->step) : nullptr;
    if (step != nullptr && step->scheme.equal_roundings != 0)
      steps[{step->scheme.layout, step->scheme.bits}].push_back(step);
  }
  for (const auto& [form, all] : steps) {
    const auto has = [](const QuantiseStep* step, std::size_t rounding) {
      return (step->scheme.equal_roundings >> rounding & 1U) != 0;
    };
    std::array<std::ptrdiff_t, rounding_count> counts{};
    for (std::size_t i = 0; i < rounding_count; ++i)
      counts[i] = std::ranges::count_if(all, [&](const QuantiseStep* step) { return has(step, i); });
    for (QuantiseStep* const step : all) {
      auto own = static_cast<std::size_t>(step->scheme.rounding);
      for (std::size_t i = 0; i < rounding_count; ++i) {
        if (has(step, i) && counts[i] > counts[own]) own = i;
      }
      step->scheme.rounding = static_cast<Rounding>(own);
    }
  }
}

void Deriver::choose_arithmetics() {
  struct Norm {
    std::vector<Derivation*> tensors;
    std::array<bool, fold_arithmetics.size()> given{};
  };
  std::map<std::string, Norm> norms;
  for (Derivation& each : found_) {
    if (each.verdict != Verdict::exact || !each.expression) continue;
    if (const std::string norm = norm_text(*each.expression); !norm.empty()) norms[norm].tensors.push_back(&each);
  }
  std::array<std::size_t, fold_arithmetics.size()> counts{};
  for (auto& [name, norm] : norms) {
    for (std::size_t i = 0; i < fold_arithmetics.size(); ++i) {
      norm.given[i] = std::ranges::all_of(norm.tensors, [&](const Derivation* each) {
        const Expression other = with_arithmetic(*each->expression, fold_arithmetics[i]);
        return text_of(evaluate(other, sources())) == contents_.of(tensors_[number_of(*each)]);
      });
      if (norm.given[i]) ++counts[i];
    }
  }
  const auto most = static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin());
  for (auto& [name, norm] : norms) {
    if (!norm.given[most]) continue;
    for (Derivation* const each : norm.tensors) {
      each->expression = with_arithmetic(std::move(*each->expression), fold_arithmetics[most]);
    }
  }
}

}  // namespace whence::derivation
