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

bool Aliases::Passage::may_be(const Term& term) const {
  for (int run = 0; run < most_runs; ++run) {
    const c10::StorageImpl* at = memory_of(term, run);
    const auto is_there = [&](const Memory& each) { return !each.expired() && each._unsafe_get_target() == at; };
    if (at != nullptr && std::ranges::any_of(memory[run], is_there)) return true;
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

void Aliases::note_writes(const std::vector<const Term*>& written) {
  for (const Term* term : written) {
    for (int run = 0; run < most_runs; ++run) {
      const auto held = in_sequences_.find(memory_of(*term, run));
      if (held == in_sequences_.end() || held->second.expired()) continue;
      refuse_write();
    }
  }
  for (auto& [list, views] : views_) {
    views.written |= std::ranges::any_of(views.tensors, [&](const at::Tensor& view) {
      return std::ranges::any_of(written, [&](const Term* term) { return holds_memory_of(*term, view); });
    });
  }
}

}  // namespace whence::recorder::script
