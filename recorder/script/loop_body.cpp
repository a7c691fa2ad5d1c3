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
    going_[run] = recording.runs.active[run] && bound(run) > 0 && holds(condition, run);
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
  Restore pretends(runs.pretends);
  ++runs.depth;
  if (any_in()) {
    runs.active = going_;
  } else {
    runs.pretends.fill(true);
    on_trial.fill(true);
  }
  for (int run = 0; run < runs.count; ++run) index.seen[run] = c10::IValue(trip);
  step.call.env[block.inputs()[0]] = index;
  Watch watch(recording_.changes, runs.depth, on_trial);
  blocks_.run(block, step.call);
  return std::move(watch.changed);
}

void LoopBody::end_iteration(std::int64_t trip) {
  constexpr std::int64_t most_of_witness = 1000;
  const Term next = next_condition();
  Lockstep& runs = recording_.runs;
  for (int run = 0; run < runs.count; ++run) {
    going_[run] = going_[run] && trip + 1 < bound(run) && holds(next, run);
    // A size that whence chose may cause millions of iterations, so that check run is dropped.
    if (run <= 1 || !going_[run] || going_[0] || going_[1] || trip < most_of_witness) continue;
    runs.alive[run] = going_[run] = false;
  }
}

}  // namespace whence::recorder::script
