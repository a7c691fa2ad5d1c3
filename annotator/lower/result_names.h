// Names the results of a branch or loop, and the variables of a loop: each is one of several tensors.
#pragma once

#include <functional>
#include <vector>

#include "annotator/lower/block_ends.h"

namespace whence::lower {

class ResultNames {
 public:
  // `outside`: the depth of the block that contains the branch or loop.
  ResultNames(Memory& memory, std::vector<ValueId> names, int outside)
      : memory_(memory), names_(std::move(names)), outside_(outside) {}

  // Returns the outer replacement of a value computed in the block: the `position`-th value that the target's steps
  // read.
  using OutsideValue =
      std::function<ValueId(std::size_t name, std::size_t target, std::size_t position, ValueId inside)>;

  // `targets`: indexed by name, each with its condition, which is valid in the scope of the names.
  void bind(const std::vector<std::vector<Target>>& targets, const OutsideValue& outside_value);
  void doubt(const std::vector<UnclearEnd>& unclear);
  void repeat(const std::vector<std::size_t>& repeating, const Failure& why);

 private:
  ValueId memory_of(std::size_t i) const { return own_[i] == none_id ? names_[i] : own_[i]; }
  ValueId tensor_of(const Target& target, std::size_t name, std::size_t number, const OutsideValue& outside_value);

  Memory& memory_;
  std::vector<ValueId> names_;
  int outside_;
  std::vector<ValueId> own_;  // indexed by name: its own memory, if it may have any
};

template <class T>
void erase_at(std::vector<T>& list, std::size_t at) {
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
}

// Returns true for a result that is the same outer tensor in every case.
bool is_kept(const std::vector<Target>& targets);

}  // namespace whence::lower
