// What comes out of a branch or loop may be a tensor from before it or a new one, as the data has it. A write into it,
// or into what it may be, is refused while the other is still of use: only at run time it is known whether that changes
// too.
#include <algorithm>

#include "recorder/script/evaluator.h"

namespace whence::recorder {

namespace jit = torch::jit;

// Operations in place give back what they wrote to.
ValueId Evaluator::first_name(const Term& term) const {
  ValueId id = term.is_value() ? term.id : none_id;
  for (auto next = same_as_.find(id); next != same_as_.end(); next = same_as_.find(id)) id = next->second;
  return id;
}

void Evaluator::note_same(const jit::Node& node, const Term& self, const Term& result) {
  if (changes_first_argument(node) && self.is_value() && result.is_value()) same_as_[result.id] = self.id;
}

void Evaluator::note_passage(ValueId made, std::initializer_list<const Term*> from) {
  Passage passage{made, {}};
  for (const Term* term : from) {
    if (memory_of(*term) != nullptr) passage.memory.push_back(term->seen[0]->toTensor().storage().getWeakStorageImpl());
  }
  if (!passage.memory.empty()) passages_.push_back(std::move(passage));
}

void Evaluator::refuse_write_through_passage(const jit::Node& node, const Call& call,
                                             const std::vector<Term>& arguments) {
  if (passages_.empty()) return;
  for (const Term* written : written_by(node, arguments)) {
    for (const Passage& passage : passages_) {
      const auto is_part = [&](const Term& term) {
        const c10::StorageImpl* memory = memory_of(term);
        return memory != nullptr && std::ranges::any_of(passage.memory, [&](const auto& each) {
                 return !each.expired() && each._unsafe_get_target() == memory;
               });
      };
      // Both from before, or both from after: what is a view of what is plain then.
      const std::function<bool(const Term&)> in_doubt = [&](const Term& other) {
        if (other.items) return std::ranges::any_of(*other.items, in_doubt);
        return other.is_value() && (other.id < passage.made) != (written->id < passage.made) && is_part(other);
      };
      if (!is_part(*written)) continue;
      for (const Call* running : running_) {
        for (const auto& [value, held] : running->env) {
          if (!in_doubt(held)) continue;
          refuse(node, call, "a tensor is written in place that a branch or loop may have made another one's alias",
                 "write into a clone");
        }
      }
    }
  }
}

}  // namespace whence::recorder
