// Follows the variables of a loop from one iteration to the next: h *= 2; h = out[i]; last = h. A body names each
// variable anew, so that it does not show whose memory a write changes in a later iteration.
#pragma once

#include <functional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "schema/program.h"

namespace whence::lower {

// Memory that a value may lie in.
struct Root {
  ValueId memory = none_id;
  ValueId part = none_id;      // the part of it, as the view that was made first; none_id: all of it
  const Node* made = nullptr;  // by which node
};

// A variable, and the memory in which it is before the loop and after an iteration.
struct PassedOn {
  ValueId variable = none_id;
  std::vector<Root> starts, left;
};

struct LoopPassages {
  std::vector<std::vector<ValueId>> outside;                // by variable: values from outside that it is at some time
  std::vector<std::pair<std::size_t, std::size_t>> shared;  // variables that share memory in some iteration
};

// True if two values from outside of the loop may share memory.
using MayMeet = std::function<bool(ValueId, ValueId)>;

// `inside` are the values that the body makes, its variables among them.
LoopPassages loop_passages(const Program& program, const std::vector<PassedOn>& variables,
                           const std::unordered_set<ValueId>& inside, const MayMeet& may_meet);

}  // namespace whence::lower
