// Watch: what a stretch of evaluation changes that was there before it. Lists, dicts and attributes that a branch or
// loop on data changes are handed on to what follows it; tensors that a run writes to where it would not have come, or
// on trial, are given their contents back.
#pragma once

#include "recorder/script/evaluator.h"

namespace whence::recorder {

class Evaluator::Watch {
 public:
  // From here on, until it is destroyed. `depth`: containers made at less are watched. `on_trial`: runs whose writes to
  // tensors are undone in the end.
  Watch(Evaluator& evaluator, int depth, const PerRun<bool>& on_trial);
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

  Evaluator& evaluator_;
  int depth_;
  PerRun<bool> on_trial_;
  std::vector<Written> written_;
};

}  // namespace whence::recorder
