#include "recorder/script/aliases.h"

#include <algorithm>

#include "recorder/base/torch_error.h"

namespace whence::recorder::script {

namespace {

void refuse_write() {
  refuse("a tensor is written in place that is in a list whose length depends on data", "put a clone into the list");
}

bool holds_memory_of(const Term& term, const at::Tensor& tensor) {
  for (int run = 0; run < most_runs; ++run) {
    if (memory_of(term, run) == tensor.storage().unsafeGetStorageImpl()) return true;
  }
  return false;
}

}  // namespace

ValueId Aliases::first_name(const Term& term) const {
  ValueId id = term.is_value() ? term.id : none_id;
  for (auto next = same_as_.find(id); next != same_as_.end(); next = same_as_.find(id)) id = next->second;
  return id;
}

void Aliases::note_passage(ValueId result, const std::vector<const Term*>& from) {
  Passage passage{result, {}};
  bool any = false;
  for (int run = 0; run < most_runs; ++run) {
    for (const Term* term : from) {
      if (memory_of(*term, run) == nullptr) continue;
      passage.memory[run].push_back(term->seen[run]->toTensor().storage().getWeakStorageImpl());
      any = true;
    }
  }
  if (any) passages_.push_back(std::move(passage));
}

bool Aliases::may_be_one(const Term& a, const Term& b) const {
  return std::ranges::any_of(passages_, [&](const Passage& passage) {
    return (passage.result == first_name(a) && passage.may_be(b)) ||
           (passage.result == first_name(b) && passage.may_be(a));
  });
}

void Aliases::note_element(const Term& element) {
  for (int run = 0; run < most_runs; ++run) {
    if (memory_of(element, run) != nullptr) note_element(element.seen[run]->toTensor());
  }
}

void Aliases::note_element(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return;
  in_sequences_.insert_or_assign(tensor.storage().unsafeGetStorageImpl(), tensor.storage().getWeakStorageImpl());
}

std::vector<const c10::StorageImpl*> Aliases::Passage::alive_in(int run) const {
  std::vector<const c10::StorageImpl*> alive;
  for (const Memory& each : memory[run]) {
    if (!each.expired()) alive.push_back(each._unsafe_get_target());
  }
  return alive;
}

bool Aliases::Passage::may_be(const Term& term) const {
  for (int run = 0; run < most_runs; ++run) {
    const auto alive = alive_in(run);
    if (std::ranges::find(alive, memory_of(term, run)) != alive.end()) return true;
  }
  return false;
}

void Aliases::note_views(ValueId list, const program::Seen& views) {
  Views& noted = views_[list];
  for (const auto& seen : views) {
    if (!seen || !seen->isTensorList()) continue;
    for (const at::Tensor& view : seen->toTensorVector()) {
      if (view.has_storage()) noted.tensors.push_back(view);
    }
  }
}

bool Aliases::is_written(ValueId list) const {
  const auto views = views_.find(list);
  return views != views_.end() && views->second.written;
}

void Aliases::note_use(const Term& list) {
  if (!list.is_sequence()) return;
  const auto views = views_.find(list.items->front().id);
  if (views == views_.end()) return;
  if (views->second.written) refuse_write();
  for (const at::Tensor& view : views->second.tensors) note_element(view);
  views_.erase(views);
}

// All memory that the tensor may lie in, in a run: where a branch or loop hands out one of several, data decide which.
std::vector<const c10::StorageImpl*> Aliases::may_lie_in(const Term& term, int run) const {
  std::vector<const c10::StorageImpl*> found{memory_of(term, run)};
  for (std::size_t i = 0; i < found.size() && found[i] != nullptr; ++i) {
    for (const Passage& passage : passages_) {
      const auto handed_out = passage.alive_in(run);
      if (std::ranges::find(handed_out, found[i]) == handed_out.end()) continue;
      for (const auto* other : handed_out) {
        if (std::ranges::find(found, other) == found.end()) found.push_back(other);
      }
    }
  }
  return found;
}

void Aliases::note_writes(const std::vector<const Term*>& written) {
  for (const Term* term : written) {
    for (int run = 0; run < most_runs && !in_sequences_.empty(); ++run) {
      for (const auto* memory : may_lie_in(*term, run)) {
        const auto held = in_sequences_.find(memory);
        if (held != in_sequences_.end() && !held->second.expired()) refuse_write();
      }
    }
  }
  for (auto& [list, views] : views_) {
    views.written |= std::ranges::any_of(views.tensors, [&](const at::Tensor& view) {
      return std::ranges::any_of(written, [&](const Term* term) { return holds_memory_of(*term, view); });
    });
  }
}

}  // namespace whence::recorder::script
