// What comes out of a branch or loop may be a tensor from before it or a new one, as the data has it. A write into it,
// or into what it may be, is refused while the other is still of use: only at run time it is known whether that changes
// too.
#include <algorithm>

#include "recorder/evaluator.h"

namespace whence {

namespace jit = torch::jit;

namespace {

c10::StorageImpl* memory_of(const Term& term) {
  const auto& seen = term.seen[0];
  const bool tensor = term.is_value() && seen && seen->isTensor() && seen->toTensor().defined();
  return tensor && seen->toTensor().has_storage() ? seen->toTensor().storage().unsafeGetStorageImpl() : nullptr;
}

}  // namespace

void Evaluator::note_passage(ValueId made, std::initializer_list<const Term*> from) {
  Passage passage{made, {}};
  for (const Term* term : from) {
    if (memory_of(*term) != nullptr) passage.memory.push_back(term->seen[0]->toTensor().storage().getWeakStorageImpl());
  }
  if (!passage.memory.empty()) passages_.push_back(std::move(passage));
}

void Evaluator::refuse_write_through_passage(const jit::Node& node, const Call& call,
                                             const std::vector<Term>& arguments) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema == nullptr || passages_.empty()) return;
  for (std::size_t i = 0; i < arguments.size() && i < schema->arguments().size(); ++i) {
    const auto* alias = schema->arguments()[i].alias_info();
    const Term& written = arguments[i];
    if (alias == nullptr || !alias->isWrite() || memory_of(written) == nullptr) continue;
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
        return other.is_value() && (other.id < passage.made) != (written.id < passage.made) && is_part(other);
      };
      if (!is_part(written)) continue;
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

}  // namespace whence
