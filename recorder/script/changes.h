// Changes, Watch: record which existing containers and tensors change while a part of the program is evaluated. Lists,
// dicts and attributes that a data-dependent branch or loop changes become results of its node. Tensors that a run
// writes to on trial, or in a branch that it does not take, are restored.
#pragma once

#include <algorithm>
#include <map>
#include <set>

#include "recorder/program/term.h"

namespace whence::recorder::script {

using program::Term;

// A list or dict that was changed, or an attribute, which is a tuple of one item.
struct ChangedContainer {
  Term::Kind kind;
  std::shared_ptr<std::vector<Term>> items;  // shared with all other references to the container
  c10::TypePtr type;
  std::vector<Term> before;

  bool changed() const { return !std::ranges::equal(*items, before, program::same_term); }

  // Returns the changed container, and restores the contents it had before.
  Term take_back() {
    Term now = Term::container(kind, std::move(*items));
    *items = before;
    return now;
  }
};

class Watch;

// The active watches, outermost first. All code that changes a container or writes to a tensor reports it here first.
class Changes {
 public:
  // Notes an upcoming change of a list, dict or attribute. Throws Error unsupported_feature if the container is
  // ambiguous.
  void note(const Term& container, const c10::TypePtr& type);
  // Saves tensors before a run writes to them.
  void save(const std::vector<const Term*>& written, int run);
  bool watched() const { return !watches_.empty(); }
  // Marks a container as ambiguous: data decides whether it is the same object as another. Its changes are refused.
  void mark_ambiguous(const std::shared_ptr<std::vector<Term>>& items) { ambiguous_.insert(items); }
  bool is_ambiguous(const std::shared_ptr<std::vector<Term>>& items) const { return ambiguous_.contains(items); }
  // Notes that the container outlives the call, as the attribute `name` of the archive or as a part of it.
  void note_attribute(const std::shared_ptr<std::vector<Term>>& items, const std::string& name) {
    attribute_names_.emplace(items, name);
  }
  // Returns the name of that attribute; empty for a container that ends with the call.
  std::string attribute_of(const std::shared_ptr<std::vector<Term>>& items) const;
  void enter(Watch& watch) { watches_.push_back(&watch); }
  void leave() { watches_.pop_back(); }

 private:
  std::vector<Watch*> watches_;
  std::set<std::shared_ptr<std::vector<Term>>> ambiguous_;
  std::map<std::shared_ptr<std::vector<Term>>, std::string> attribute_names_;
};

// Watches the evaluation from construction to destruction.
class Watch {
 public:
  // `depth`: containers made at a smaller depth are watched. `on_trial`: runs whose writes to tensors are undone at the
  // end.
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
    std::vector<std::int64_t> sizes, strides;  // some operators change these in place, too
    std::int64_t offset;
  };

  Changes& changes_;
  int depth_;
  PerRun<bool> on_trial_;
  std::vector<Written> written_;
};

// Returns false if neither the block nor the functions it calls can change a list, dict or attribute.
bool may_change_containers(const torch::jit::Block& block);

}  // namespace whence::recorder::script
