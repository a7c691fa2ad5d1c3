// What a stretch of evaluation changes that was there before it. Lists, dicts and attributes that a branch or loop on
// data changes are handed on to what follows it; tensors that a run writes to where it would not have come, or on
// trial, are given their contents back.
#pragma once

#include <algorithm>
#include <set>

#include "recorder/program/term.h"

namespace whence::recorder {

// A list or dict that was changed, or an attribute, which is a tuple of one item.
struct ChangedContainer {
  Term::Kind kind;
  std::shared_ptr<std::vector<Term>> items;  // shared with whoever holds it
  c10::TypePtr type;
  std::vector<Term> before;

  bool changed() const { return !std::ranges::equal(*items, before, same_term); }

  // What it is now; afterwards it is what it was before.
  Term take_back() {
    Term now = Term::container(kind, std::move(*items));
    *items = before;
    return now;
  }
};

class Watch;

// The stretches that are watched now, the outermost first. Whatever changes a container or writes to a tensor reports
// it here first.
class Changes {
 public:
  // A list, dict or attribute is about to be changed. Throws Error unsupported_feature where it may be another one.
  void note(const Term& container, const c10::TypePtr& type);
  // Tensors are about to be written to in a run.
  void save(const std::vector<const Term*>& written, int run);
  bool watched() const { return !watches_.empty(); }
  // The container may be one with another, as the data has it: refuses changes of it.
  void doubt(const std::shared_ptr<std::vector<Term>>& items) { in_doubt_.insert(items); }
  bool in_doubt(const std::shared_ptr<std::vector<Term>>& items) const { return in_doubt_.contains(items); }
  void enter(Watch& watch) { watches_.push_back(&watch); }
  void leave() { watches_.pop_back(); }

 private:
  std::vector<Watch*> watches_;
  std::set<std::shared_ptr<std::vector<Term>>> in_doubt_;
};

// One such stretch, from construction to destruction.
class Watch {
 public:
  // `depth`: containers made at less are watched. `on_trial`: runs whose writes to tensors are undone in the end.
  Watch(Changes& changes, int depth, const PerRun<bool>& on_trial);
  ~Watch();
  Watch(const Watch&) = delete;

  void note(const Term& container, const c10::TypePtr& type);
  void save(const std::vector<const Term*>& written, int run);
  void keep_writes() { written_.clear(); }
  void take_back_all() {
    for (ChangedContainer& container : changed) container.take_back();
  }

  std::vector<ChangedContainer> changed;  // in order of their first change

 private:
  struct Written {
    at::Tensor tensor, before;
    std::vector<std::int64_t> sizes, strides;  // as some operators change them in place
    std::int64_t offset;
  };

  Changes& changes_;
  int depth_;
  PerRun<bool> on_trial_;
  std::vector<Written> written_;
};

// False where the block certainly changes no list, dict or attribute, also not in what it calls.
bool may_change_containers(const torch::jit::Block& block);

}  // namespace whence::recorder
