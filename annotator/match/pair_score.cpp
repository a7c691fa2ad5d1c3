#include "annotator/match/pair_score.h"

#include <algorithm>

#include "annotator/match/growth_limits.h"

namespace whence::match {
namespace {

constexpr double same_input = 1.0, same_output = 1.4;
constexpr double different_input = -0.8, different_output = -1.2;
constexpr double input_with_other_partner = -0.25, output_with_other_partner = -0.5;
constexpr double weights_of_others = -2;
constexpr double clear_weight = 1.8;  // strength of evidence that has one candidate, of a parameter with one reader

std::uint64_t pair_key(ForeignNode f, ReferenceNode r) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(f.number())) << 32 |
         static_cast<std::uint32_t>(r.number());
}

}  // namespace

double PairScore::score(ForeignNode f, ReferenceNode r, Trust trust) const {
  return support(f, r, trust) + likeness_.of(f, r);
}

double PairScore::support(ForeignNode f, ReferenceNode r, Trust trust) const {
  double total = evidence_for(f, r) + (reads_weights_of_others(f, r) ? weights_of_others : 0);
  add_input_support(f, r, trust, total);
  add_output_support(f, r, trust, total);
  return trust == Trust::all ? total + bonus(f, r) : total;
}

double PairScore::bonus(ForeignNode f, ReferenceNode r) const {
  const auto found = bonus_.find(pair_key(f, r));
  return found == bonus_.end() ? 0 : found->second;
}

void PairScore::add_bonus(ForeignNode f, ReferenceNode r) { bonus_[pair_key(f, r)] += bridge_bonus; }

double PairScore::evidence_for(ForeignNode f, ReferenceNode r) const {
  double best = 0, sum = 0;
  for (const Evidence& evidence : evidence_[f]) {
    if (evidence.rule == MatchRule::fx_names) continue;  // part of the likeness
    for (const UnitIndex unit : reference_.units_of_node[r]) {
      const bool agrees =
          evidence.unit.exists() ? evidence.unit == unit : evidence.scope == reference_.units[unit].scope;
      if (!agrees) continue;
      best = std::max(best, evidence.strength);
      sum += 0.25 * evidence.strength;
      break;
    }
  }
  return best + std::min(sum, 0.5);
}

// Returns true if a weight that the foreign node reads clearly belongs to another module, and none to the reference
// node's module. The operation that reads it may only rearrange it.
bool PairScore::reads_weights_of_others(ForeignNode f, ReferenceNode r) const {
  bool of_others = false;
  for (const Evidence& evidence : evidence_[f]) {
    if (!is_of_content(evidence.rule) || !evidence.unit.exists()) continue;
    const ScopeIndex owner = reference_.units[evidence.unit].scope;
    const bool own = std::ranges::any_of(reference_.units_of_node[r],
                                         [&](UnitIndex unit) { return reference_.units[unit].scope == owner; });
    if (own) return false;
    of_others = of_others || evidence.strength >= clear_weight;
  }
  return of_others;
}

void PairScore::add_input_support(ForeignNode f, ReferenceNode r, Trust trust, double& total) const {
  const auto f_inputs = f_.data_inputs(f);
  const auto r_inputs = r_.data_inputs(r);
  if (f_.nodes[f].commutative || f_inputs.size() != r_inputs.size()) {
    // The inputs are compared as sets: values that correspond count in any position.
    for (const ForeignValue fv : f_inputs) {
      if (!fv.exists() || !partner(fv, trust).exists()) continue;
      total += std::find(r_inputs.begin(), r_inputs.end(), partner(fv, trust)) != r_inputs.end()
                   ? same_input
                   : input_with_other_partner;
    }
    return;
  }
  for (std::size_t i = 0; i < f_inputs.size(); ++i) {
    if (!f_inputs[i].exists() || !r_inputs[i].exists()) continue;
    const ReferenceValue known = partner(f_inputs[i], trust);
    if (known == r_inputs[i]) {
      total += same_input;
    } else if (known.exists() && partner(r_inputs[i], trust).exists()) {
      total += different_input;
    } else if (known.exists()) {
      total += input_with_other_partner;
    }
  }
}

void PairScore::add_output_support(ForeignNode f, ReferenceNode r, Trust trust, double& total) const {
  const auto& f_outputs = f_.nodes[f].outputs;
  const auto& r_outputs = r_.nodes[r].outputs;
  for (std::size_t i = 0; i < f_outputs.size() && i < r_outputs.size(); ++i) {
    const ForeignValue fv = f_.loose(f_outputs[i]);
    const ReferenceValue rv = r_.loose(r_outputs[i]);
    if (!fv.exists() || !rv.exists()) continue;
    const bool is_taken = partner(rv, trust).exists();
    if (partner(fv, trust) == rv) {
      total += same_output;
    } else if (partner(fv, trust).exists() && is_taken) {
      total += different_output;
    } else if (is_taken) {
      total += output_with_other_partner;
    }
  }
}

ReferenceValue PairScore::partner(ForeignValue fv, Trust trust) const {
  return trust == Trust::all || pairs_.is_certain(fv) ? pairs_.partner(fv) : ReferenceValue();
}

ForeignValue PairScore::partner(ReferenceValue rv, Trust trust) const {
  const ForeignValue fv = pairs_.partner(rv);
  return trust == Trust::all || pairs_.is_certain(fv) ? fv : ForeignValue();
}

}  // namespace whence::match
