#include "annotator/lower/result_names.h"

#include <algorithm>
#include <utility>

namespace whence::lower {

void ResultNames::bind(const std::vector<std::vector<Target>>& targets, const OutsideValue& outside_value) {
  own_.assign(names_.size(), none_id);
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const auto is_own = [](const Target& target) { return target.kind == Target::Kind::own; };
    if (std::ranges::all_of(targets[i], is_own)) {
      own_[i] = names_[i];
    } else if (std::ranges::any_of(targets[i], is_own)) {
      own_[i] = memory_.fresh_like(names_[i]);
      memory_.allocate(own_[i], names_[i]);
      memory_.place_like(own_[i], names_[i]);
    }
  }
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (own_[i] == names_[i]) continue;
    if (is_kept(targets[i])) {
      memory_.alias(names_[i], targets[i].front().tensor);
      continue;
    }
    Memory::Choice choice{{}, own_[i]};
    for (std::size_t k = 0; k < targets[i].size(); ++k) {
      choice.of.push_back({targets[i][k].guard, tensor_of(targets[i][k], i, k, outside_value)});
    }
    memory_.choose(names_[i], std::move(choice), names_[i]);
  }
}

ValueId ResultNames::tensor_of(const Target& target, std::size_t name, std::size_t number,
                               const OutsideValue& outside_value) {
  if (target.kind == Target::Kind::own) return own_[name];
  if (target.kind == Target::Kind::same) return names_[target.result];
  ValueId tensor = target.kind == Target::Kind::outside ? target.tensor : memory_of(target.result);
  std::vector<Memory::View> steps = target.steps;
  std::size_t position = 0;
  each_step_value(steps, [&](ValueId& id) {
    if (!memory_.is_defined_outside(id, outside_)) id = outside_value(name, number, position, id);
    ++position;
  });
  for (Memory::View& step : steps) {
    const ValueId part = memory_.fresh_like(step.node.outputs[step.output]);
    step.base = std::exchange(tensor, part);
    memory_.add_view(part, std::move(step));
  }
  return tensor;
}

void ResultNames::doubt(const std::vector<UnclearEnd>& unclear) {
  for (const UnclearEnd& each : unclear) {
    memory_.doubt(memory_of(each.result), each.other ? memory_of(*each.other) : each.tensor, each.why);
  }
}

void ResultNames::repeat(const std::vector<std::size_t>& repeating, const Failure& why) {
  for (const std::size_t i : repeating) memory_.repeat(memory_of(i), why);
}

bool is_kept(const std::vector<Target>& targets) {
  return targets.size() == 1 && targets[0].kind == Target::Kind::outside && targets[0].steps.empty();
}

}  // namespace whence::lower
