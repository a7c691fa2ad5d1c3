// One run of a tool quantises and folds all tensors in one way. Chooses the way that gives most tensors, where a
// tensor's own bytes allow several: weights of a new model may distinguish them.
#include <algorithm>
#include <array>
#include <bitset>
#include <map>
#include <optional>
#include <utility>

#include "annotator/derivation/deriver.h"
#include "annotator/derivation/element_views.h"

namespace whence::derivation {
namespace {

constexpr std::size_t most_ways = 8;
using Ways = std::bitset<most_ways>;  // the ways that give a tensor's bytes

// Counts in how many tensors each way gives the bytes.
class Votes {
 public:
  void add(const Ways& ways) {
    for (std::size_t way = 0; way < most_ways; ++way) counts_[way] += ways[way] ? 1 : 0;
  }
  // Lets a tie, which weights of a new model give, go to this way.
  void prefer(std::size_t way) { counts_[way] *= 1.1; }

  double of(std::size_t way) const { return counts_[way]; }
  std::size_t most() const { return static_cast<std::size_t>(std::ranges::max_element(counts_) - counts_.begin()); }
  // Returns the way with most votes of those that give a tensor's bytes. `own` wins a tie.
  std::size_t best(const Ways& ways, std::size_t own) const {
    for (std::size_t way = 0; way < most_ways; ++way) {
      if (ways[way] && counts_[way] > counts_[own]) own = way;
    }
    return own;
  }

 private:
  std::array<double, most_ways> counts_{};
};

// Returns the variance of the first norm that was folded into an expression, as text; empty without a norm.
std::string norm_text(const Expression& expression) {
  if (std::holds_alternative<FoldStep>(expression.step)) return to_text(expression.inputs.back());
  for (const Expression& input : expression.inputs) {
    if (std::string norm = norm_text(input); !norm.empty()) return norm;
  }
  return {};
}

std::optional<FoldArithmetic> arithmetic_of(const Expression& expression) {
  if (const auto* const fold = std::get_if<FoldStep>(&expression.step)) return fold->arithmetic;
  for (const Expression& input : expression.inputs) {
    if (const auto found = arithmetic_of(input)) return found;
  }
  return {};
}

Expression with_arithmetic(Expression expression, FoldArithmetic arithmetic) {
  if (auto* const fold = std::get_if<FoldStep>(&expression.step)) fold->arithmetic = arithmetic;
  for (Expression& input : expression.inputs) input = with_arithmetic(std::move(input), arithmetic);
  return expression;
}

// Returns true if a converter put numbers into a range to make a tensor.
bool is_limited(const Expression& expression) {
  const auto* const cast = std::get_if<CastStep>(&expression.step);
  return (cast != nullptr && cast->range.is_limited()) || std::ranges::any_of(expression.inputs, is_limited);
}

// Returns the expression with numbers put into this range before they become float16.
Expression with_range(Expression expression, const CastRange& range, const Weights& weights) {
  if (auto* const cast = std::get_if<CastStep>(&expression.step); cast != nullptr && cast->dtype == DType::float16)
    cast->range = range;
  for (Expression& input : expression.inputs) input = with_range(std::move(input), range, weights);
  auto* const parameter = std::get_if<ParameterStep>(&expression.step);
  if (parameter == nullptr || parameter->dtype != DType::float16) return expression;
  const TensorData* const stored = weights.find(parameter->name);
  if (stored == nullptr || stored->dtype != DType::float32) return expression;
  parameter->dtype = DType::float32;
  return {CastStep{DType::float16, range}, {std::move(expression)}};
}

}  // namespace

bool Deriver::gives(const Expression& expression, TensorNumber tensor) {
  return text_of(evaluate(expression, sources())) == contents_.of(tensors_[tensor]);
}

void Deriver::choose_scale_rules() {
  constexpr std::size_t rules = 4;
  const auto rules_of = [](const Scheme& scheme) {
    Ways ways;
    for (std::size_t rule = 0; rule < rules; ++rule) ways[rule] = scheme.follows(static_cast<ScaleRule>(rule));
    return ways;
  };
  const auto step_of = [](Derivation& each) {
    return each.expression ? std::get_if<QuantiseStep>(&each.expression->step) : nullptr;
  };
  std::map<Layout, Votes> votes;
  for (Derivation& each : found_) {
    const QuantiseStep* const step = step_of(each);
    if (step != nullptr && step->part == QuantiseStep::Part::scales)
      votes[step->scheme.layout].add(rules_of(step->scheme));
  }
  // ONNX Runtime's quantiser in Python computes in double precision, that of blocks in C++ in single.
  for (auto& [layout, all] : votes) {
    const bool is_plain = layout == Layout::plain;
    all.prefer(static_cast<std::size_t>(is_plain ? ScaleRule::range_in_double : ScaleRule::range_in_float));
  }
  for (Derivation& each : found_) {
    QuantiseStep* const step = step_of(each);
    if (step == nullptr) continue;
    const Votes& all = votes[step->scheme.layout];
    const std::size_t common = all.most();
    const std::size_t own = all.best(rules_of(step->scheme), static_cast<std::size_t>(step->scheme.scale_rule));
    step->scheme.scale_rule = static_cast<ScaleRule>(own);
    if (all.of(own) == all.of(common) || step->part != QuantiseStep::Part::scales) continue;
    // A norm that was folded in another arithmetic may give the same scale by another rule.
    const auto weight = std::ranges::find(tensors_.quantised(), number_of(each), &QuantisedWeight::scales);
    if (weight != tensors_.quantised().end() && find_by_rule(*weight, static_cast<ScaleRule>(common))) continue;
    each = {Verdict::unaccounted, {}, "its scale follows another rule than those of the other tensors", each.bytes};
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
    Votes votes;
    for (const QuantiseStep* const step : all) votes.add(step->scheme.equal_roundings);
    for (QuantiseStep* const step : all) {
      const auto own = static_cast<std::size_t>(step->scheme.rounding);
      step->scheme.rounding = static_cast<Rounding>(votes.best(step->scheme.equal_roundings, own));
    }
  }
}

void Deriver::choose_arithmetics() {
  struct Norm {
    std::vector<Derivation*> tensors;
    Ways given;
  };
  std::map<std::string, Norm> norms;
  for (Derivation& each : found_) {
    if (each.verdict != Verdict::exact || !each.expression) continue;
    if (const std::string norm = norm_text(*each.expression); !norm.empty()) norms[norm].tensors.push_back(&each);
  }
  Votes votes;
  for (auto& [name, norm] : norms) {
    for (std::size_t i = 0; i < fold_arithmetics.size(); ++i) {
      norm.given[i] = std::ranges::all_of(norm.tensors, [&](const Derivation* each) {
        return arithmetic_of(*each->expression) == fold_arithmetics[i] ||
               gives(with_arithmetic(*each->expression, fold_arithmetics[i]), number_of(*each));
      });
    }
    votes.add(norm.given);
  }
  const std::size_t most = votes.most();
  for (auto& [name, norm] : norms) {
    if (!norm.given[most]) continue;
    for (Derivation* const each : norm.tensors) {
      each->expression = with_arithmetic(std::move(*each->expression), fold_arithmetics[most]);
    }
  }
}

void Deriver::choose_ranges() {
  const auto with = [this](const Derivation& each, std::size_t way) {
    return with_range(*each.expression, cast_ranges[way], weights_);
  };
  // Only a tensor with a number beyond a limit tells which converter was used.
  Votes votes;
  for (const Derivation& each : found_) {
    if (each.verdict != Verdict::exact || !each.expression || !is_limited(*each.expression)) continue;
    Ways ways;
    for (std::size_t way = 0; way < cast_ranges.size(); ++way) ways[way] = gives(with(each, way), number_of(each));
    votes.add(ways);
  }
  const std::size_t most = votes.most();
  if (votes.of(most) == 0) return;
  for (Derivation& each : found_) {
    const bool is_half = from_onnx(tensors_[number_of(each)].tensor->data_type) == DType::float16;
    if (!is_half || each.verdict != Verdict::exact || !each.expression) continue;
    if (Expression other = with(each, most); gives(other, number_of(each))) each.expression = std::move(other);
  }
}

}  // namespace whence::derivation
