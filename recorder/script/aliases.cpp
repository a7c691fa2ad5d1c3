#include "recorder/script/aliases.h"

#include <algorithm>

namespace whence::recorder::script {

ValueId Aliases::first_name(const Term& term) const {
  ValueId id = term.is_value() ? term.id : none_id;
  for (auto next = same_tensor_.find(id); next != same_tensor_.end(); next = same_tensor_.find(id)) id = next->second;
  return id;
}

void Aliases::note_possible_alias(ValueId result, const std::vector<const Term*>& from) {
  PossibleAlias possible{result, {}};
  bool any = false;
  for (int run = 0; run < max_runs; ++run) {
    for (const Term* term : from) {
      if (memory_of(*term, run) == nullptr) continue;
      possible.memory[run].push_back(term->seen[run]->toTensor().storage().getWeakStorageImpl());
      any = true;
    }
  }
  if (any) possible_aliases_.push_back(std::move(possible));
}

bool Aliases::may_be_same(const Term& a, const Term& b) const {
  return std::ranges::any_of(possible_aliases_, [&](const PossibleAlias& possible) {
    return (possible.result == first_name(a) && possible.may_be(b)) ||
           (possible.result == first_name(b) && possible.may_be(a));
  });
}

std::vector<const c10::StorageImpl*> Aliases::PossibleAlias::alive_in(int run) const {
  std::vector<const c10::StorageImpl*> alive;
  for (const Memory& each : memory[run]) {
    if (!each.expired()) alive.push_back(each._unsafe_get_target());
  }
  return alive;
}

bool Aliases::PossibleAlias::may_be(const Term& term) const {
  for (int run = 0; run < max_runs; ++run) {
    const auto alive = alive_in(run);
    if (std::ranges::find(alive, memory_of(term, run)) != alive.end()) return true;
  }
  return false;
}

}  // namespace whence::recorder::script
