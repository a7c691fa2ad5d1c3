#include "annotator/match/pair_links.h"

#include <algorithm>

#include "annotator/match/fused_operators.h"
#include "annotator/match/fused_sum.h"
#include "annotator/match/op_class.h"
#include "annotator/match/value_steps.h"

namespace whence::match {
void PairLinks::link_neighbours(ForeignNode f, ReferenceNode r) {
  links_.set_certainty(pairs_.is_certain_pair(f), pairs_.tie_scope(f));
  link_inputs(f, r);
  link_inputs_of_other_forms(f, r);
  link_outputs(f, r);
  links_.set_certainty(true, {});
}

void PairLinks::link_inputs(ForeignNode f, ReferenceNode r) {
  const auto f_inputs = f_.data_inputs(f);
  const auto r_inputs = r_.data_inputs(r);
  if (const auto fused = sum_after(f_, reference_, f, r)) {
    links_.link_operand(f_inputs[0], r_inputs[0]);
    links_.link_operand(added_value(f_, f), fused->addend);
    return;
  }
  if (f_.nodes[f].commutative && r_.nodes[r].commutative) return link_commutative_inputs(f_inputs, r_inputs);
  const auto f_count = f_.count_data_inputs(f), r_count = r_.count_data_inputs(r);
  const bool one_each = f_count == 1 && r_count == 1;
  const auto only = [](const auto& inputs) { return *std::max_element(inputs.begin(), inputs.end()); };
  // Skip...Normalization adds before it normalizes.
  const bool adds_first = is_skip_norm(f_.nodes[f].op_type) && !is_skip_norm(r_.nodes[r].op_type);
  if (one_each && adds_first) {
    link_operand_of_sum(only(f_inputs), only(r_inputs));
  } else if (f_count == r_count && f_inputs.size() == r_inputs.size()) {
    for (std::size_t i = 0; i < f_inputs.size(); ++i) links_.link_operand(f_inputs[i], r_inputs[i]);
  } else if (one_each) {
    links_.link_operand(only(f_inputs), only(r_inputs));
  } else {
    link_combined_inputs(f_inputs, r_inputs);
  }
}

// Links the inputs without partner if there is one on each side, or if their operators show which two belong together.
void PairLinks::link_commutative_inputs(const std::vector<ForeignValue>& f_inputs,
                                        const std::vector<ReferenceValue>& r_inputs) {
  std::vector<ForeignValue> f_open;
  std::vector<ReferenceValue> r_open;
  for (const ForeignValue value : f_inputs) {
    if (value.exists() && !pairs_.partner(value).exists()) f_open.push_back(value);
  }
  for (const ReferenceValue value : r_inputs) {
    if (value.exists() && !pairs_.partner(value).exists()) r_open.push_back(value);
  }
  if (f_open.size() == 1 && r_open.size() == 1) return links_.link_operand(f_open[0], r_open[0]);
  if (f_open.size() != 2 || r_open.size() != 2) return;
  const bool straight =
      likeness_.are_produced_alike(f_open[0], r_open[0]) && likeness_.are_produced_alike(f_open[1], r_open[1]);
  const bool crossed =
      likeness_.are_produced_alike(f_open[0], r_open[1]) && likeness_.are_produced_alike(f_open[1], r_open[0]);
  if (straight == crossed) return;
  links_.link_operand(f_open[0], r_open[straight ? 0 : 1]);
  links_.link_operand(f_open[1], r_open[straight ? 1 : 0]);
}

// Links inputs that the partner does not read, but another form of it does: a Pad that one form of a convolution has
// absorbed.
void PairLinks::link_inputs_of_other_forms(ForeignNode f, ReferenceNode r) {
  if (!is_product(r_.nodes[r].op_class)) return;
  const auto f_inputs = f_.data_inputs(f);
  for (const UnitIndex unit : reference_.units_of_node[r]) {
    for (const ReferenceNode other : reference_.nodes_of_unit[unit]) {
      const auto r_inputs = r_.data_inputs(other);
      if (other == r || r_.nodes[other].op_class != r_.nodes[r].op_class) continue;
      for (std::size_t i = 0; i < std::min(f_inputs.size(), r_inputs.size()); ++i) {
        const ForeignValue fv = f_inputs[i];
        const ReferenceValue rv = r_inputs[i];
        if (!fv.exists() || !rv.exists() || pairs_.partner(fv).exists() || pairs_.partner(rv).exists()) continue;
        if (!f_.makers(fv).empty() && likeness_.are_produced_alike(fv, rv)) links_.link(fv, rv);
      }
    }
  }
}

// Links `fv` to the operand of the sum that is produced like it: the other operand is a constant that the foreign node
// reads itself.
void PairLinks::link_operand_of_sum(ForeignValue fv, ReferenceValue sum) {
  for (const ReferenceNode maker : r_.makers(sum)) {
    for (const ReferenceValue input : r_.data_inputs(maker)) {
      if (input.exists() && !pairs_.partner(fv).exists() && likeness_.are_produced_alike(fv, input))
        return links_.link(fv, input);
    }
  }
}

// Links inputs if one side's node reads values that the other side combines first: SkipLayerNormalization(a, b) and
// LayerNormalization(Add(a, b)). Links values that are produced alike, and only if there is no choice.
void PairLinks::link_combined_inputs(const std::vector<ForeignValue>& f_inputs,
                                     const std::vector<ReferenceValue>& r_inputs) {
  const std::vector<ReferenceValue> candidates = combined_values(r_inputs);
  for (const ForeignValue fv : f_inputs) {
    if (!fv.exists() || pairs_.partner(fv).exists() || f_.makers(fv).empty()) continue;
    ReferenceValue only;
    int count = 0;
    for (const ReferenceValue candidate : candidates) {
      if (pairs_.partner(candidate).exists() || !likeness_.are_produced_alike(fv, candidate)) continue;
      only = candidate;
      ++count;
    }
    const auto rivals = std::count_if(f_inputs.begin(), f_inputs.end(), [&](ForeignValue other) {
      return other.exists() && other != fv && only.exists() && !pairs_.partner(other).exists() &&
             likeness_.are_produced_alike(other, only);
    });
    if (count == 1 && rivals == 0) links_.link(fv, only);
  }
}

// Returns the inputs and the values from which they are computed by cheap arithmetic.
std::vector<ReferenceValue> PairLinks::combined_values(const std::vector<ReferenceValue>& inputs) const {
  constexpr std::size_t max_values = 16;
  std::vector<ReferenceValue> values;
  for (const ReferenceValue value : inputs) {
    if (value.exists()) values.push_back(value);
  }
  for (std::size_t i = 0; i < values.size() && values.size() < max_values; ++i) {
    for (const ReferenceNode maker : r_.makers(values[i])) {
      if (!may_be_stepped_over(r_, maker)) continue;
      for (const ReferenceValue input : r_.data_inputs(maker)) {
        if (input.exists() && std::find(values.begin(), values.end(), input) == values.end()) values.push_back(input);
      }
    }
  }
  return values;
}

void PairLinks::link_outputs(ForeignNode f, ReferenceNode r) {
  const auto& f_node = f_.nodes[f];
  const auto& r_node = r_.nodes[r];
  if (const auto fused = sum_after(f_, reference_, f, r))
    return links_.link_result(f_.loose(f_node.outputs[0]), fused->sum);
  for (std::size_t i = 0; i < f_node.outputs.size() && i < r_node.outputs.size(); ++i) {
    links_.link_result(f_.loose(f_node.outputs[i]), r_.loose(r_node.outputs[i]));
  }
  // Skip...Normalization also returns the sum that it normalizes.
  constexpr std::size_t sum = 3;
  if (is_skip_norm(f_node.op_type) && f_node.outputs.size() > sum && !is_skip_norm(r_node.op_type)) {
    for (const ReferenceValue input : r_.data_inputs(r)) {
      if (input.exists()) links_.link(f_.loose(f_node.outputs[sum]), input);
    }
  }
}

}  // namespace whence::match
