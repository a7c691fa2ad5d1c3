// LoopBody: the body of a data-dependent loop, evaluated by the runs that are still in the loop.
#pragma once

#include <algorithm>

#include "recorder/script/block_runner.h"
#include "recorder/script/recording.h"

namespace whence::recorder::script {

class LoopBody {
 public:
  LoopBody(Recording& recording, BlockRunner& blocks, const Step& step);

  // Evaluates the body once, in the runs that are still in the loop; if no run enters the loop, only to record it.
  // Undoes writes of the runs that are `on_trial`. Returns the containers from before the loop that it changed.
  std::vector<ChangedContainer> run(std::int64_t trip, PerRun<bool> on_trial);

  // Returns the condition for another iteration, as the last iteration computed it.
  const Term& next_condition() const { return step.call.term(block.outputs()[0]); }
  // Return the i-th variable at the start and at the end of an iteration.
  Term& variable(std::size_t i) { return step.call.env[block.inputs()[i + 1]]; }
  const Term& variable_after(std::size_t i) const { return step.call.term(block.outputs()[i + 1]); }
  // Removes the runs for which iteration `trip` is the last.
  void end_iteration(std::int64_t trip);

  bool is_in_loop(int run) const { return in_loop_[run]; }
  bool any_in_loop() const {
    return std::ranges::any_of(in_loop_, [](bool goes_on) { return goes_on; });
  }

  const Step& step;
  const torch::jit::Block& block;
  const Term trips, condition;  // before the loop
  const Origin origin;          // the origin of the loop's node
  Term index;                   // the number of the iteration

 private:
  static bool holds(const Term& condition, int run);
  std::int64_t bound(int run) const;

  Recording& recording_;
  BlockRunner& blocks_;
  PerRun<bool> in_loop_{};
};

}  // namespace whence::recorder::script
