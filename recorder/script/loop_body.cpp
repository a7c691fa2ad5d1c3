#include "recorder/script/loop_body.h"

#include "recorder/script/restore.h"

namespace whence::recorder::script {

LoopBody::LoopBody(Recording& recording, BlockRunner& blocks, const Step& loop)
    : step(loop),
      block(*loop.node.blocks()[0]),
      trips(loop.in(0)),
      condition(loop.in(1)),
      origin(recording.writer.origin_of_block(loop)),
      recording_(recording),
      blocks_(blocks) {
  for (int run = 0; run < recording.runs.count; ++run) {
    in_loop_[run] = recording.runs.active[run] && bound(run) > 0 && holds(condition, run);
  }
  index = Term::of_value(
      recording.values.add("iteration", ValueSource::block_input, program::declared_type(c10::IntType::get())));
}

bool LoopBody::holds(const Term& condition, int run) {
  const auto value = condition.at(run);
  return value && value->isBool() && value->toBool();
}

std::int64_t LoopBody::bound(int run) const { return trips.integer_at(run).value_or(0); }

std::vector<ChangedContainer> LoopBody::run(std::int64_t trip, PerRun<bool> on_trial) {
  Lockstep& runs = recording_.runs;
  Restore depth(runs.depth);
  Restore active(runs.active);
  Restore off_path(runs.off_path);
  ++runs.depth;
  if (any_in_loop()) {
    runs.active = in_loop_;
  } else {
    runs.off_path.fill(true);
    on_trial.fill(true);
  }
  for (int run = 0; run < runs.count; ++run) index.seen[run] = c10::IValue(trip);
  step.call.env[block.inputs()[0]] = index;
  Watch watch(recording_.changes, runs.depth, on_trial);
  blocks_.run(block, step.call);
  return std::move(watch.changed);
}

void LoopBody::end_iteration(std::int64_t trip) {
  constexpr std::int64_t max_check_iterations = 1000;
  const Term next = next_condition();
  Lockstep& runs = recording_.runs;
  for (int run = 0; run < runs.count; ++run) {
    in_loop_[run] = in_loop_[run] && trip + 1 < bound(run) && holds(next, run);
    // A size that whence chose may cause millions of iterations, so that check run is dropped.
    if (run <= 1 || !in_loop_[run] || in_loop_[0] || in_loop_[1] || trip < max_check_iterations) continue;
    runs.alive[run] = in_loop_[run] = false;
  }
}

}  // namespace whence::recorder::script
