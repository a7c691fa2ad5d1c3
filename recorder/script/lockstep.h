// Lockstep: which of the runs on example inputs take part in the current node, and how many blocks that depend on data
// are around it. Control flow sets this; all code that executes an operation reads it.
#pragma once

#include "recorder/program/term.h"

namespace whence::recorder::script {

using program::Seen;

class Lockstep {
 public:
  Lockstep(int runs, int single_run) : count(runs), single(single_run) {}

  bool takes_part(int run) const { return active[run] && alive[run]; }

  // True if the node is evaluated only for its shapes, and no run really reaches it.
  bool speculative() const {
    if (count == 0) return pretends[0];
    for (int run = 0; run < count; ++run) {
      if (takes_part(run) && !pretends[run]) return false;
    }
    return true;
  }

  // Returns by run what `value_in` returns for the run's number.
  Seen each(const auto& value_in) const {
    Seen seen;
    for (int run = 0; run < count; ++run) seen[run] = value_in(run);
    return seen;
  }

  const int count;                // 0: no example inputs
  const int single;               // the witness whose dynamic axes are 1 long; 0: there is none
  PerRun<bool> active = every();  // a loop may end earlier in one of them
  PerRun<bool> alive = every();   // false for a witness that failed
  PerRun<bool> pretends{};        // runs inside a branch that they do not take: their failures do not count
  int depth = 0;                  // data-dependent blocks around the current node

 private:
  static constexpr PerRun<bool> every() {
    PerRun<bool> runs{};
    runs.fill(true);
    return runs;
  }
};

}  // namespace whence::recorder::script
