// Lockstep: which of the runs on example inputs take part in the current node, and how many data-dependent blocks are
// around it. Control flow sets this; all code that executes an operation reads it.
#pragma once

#include "recorder/program/term.h"

namespace whence::recorder::script {

using program::RunValues;

class Lockstep {
 public:
  Lockstep(int runs, int single_run) : count(runs), single(single_run) {}

  bool takes_part(int run) const { return active[run] && alive[run]; }

  // Returns true if no run really reaches the node: it is evaluated only for its shapes.
  bool speculative() const {
    if (count == 0) return off_path[0];
    for (int run = 0; run < count; ++run) {
      if (takes_part(run) && !off_path[run]) return false;
    }
    return true;
  }

  // Returns the result of `value_in` for each run.
  RunValues each(const auto& value_in) const {
    RunValues seen;
    for (int run = 0; run < count; ++run) seen[run] = value_in(run);
    return seen;
  }

  const int count;                // 0: no example inputs
  const int single;               // the check run with size 1 for all dynamic axes; 0: none
  PerRun<bool> active = every();  // false for a run that has left the current loop
  PerRun<bool> alive = every();   // false for a check run that failed
  PerRun<bool> off_path{};        // runs in a branch side that they do not take: their failures do not count
  int depth = 0;                  // data-dependent blocks around the current node

 private:
  static constexpr PerRun<bool> every() {
    PerRun<bool> runs{};
    runs.fill(true);
    return runs;
  }
};

}  // namespace whence::recorder::script
