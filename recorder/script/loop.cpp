#include "recorder/script/loop.h"

#include <limits>

#include "recorder/script/data_loop.h"

namespace whence::recorder::script {

namespace jit = torch::jit;

namespace {

// Unrolls a loop whose trip count and conditions are settled. Returns false, after removing the nodes that it recorded,
// if a condition depends on data.
bool unroll(Recording& recording, BlockRunner& blocks, const Step& step) {
  const auto trips = step.in(0).settled();
  auto condition = step.in(1).settled();
  if (!trips || !condition) return false;
  const jit::Block& body = *step.node.blocks()[0];
  const NodeWriter::Mark mark = recording.writer.mark();
  // Only a condition that the body computes can turn out to depend on data.
  PerRun<bool> on_trial;
  on_trial.fill(body.outputs()[0]->node()->kind() != c10::prim::Constant);
  Watch watch(recording.changes, std::numeric_limits<int>::max(), on_trial);

  auto& env = step.call.env;
  std::vector<Term> carried;
  for (std::size_t i = 2; i < step.count(); ++i) carried.push_back(step.in(i));
  for (std::int64_t trip = 0; trip < trips->toInt() && condition->toBool(); ++trip) {
    env[body.inputs()[0]] = Term::literal(trip);
    for (std::size_t i = 0; i < carried.size(); ++i) env[body.inputs()[i + 1]] = carried[i];
    blocks.run(body, step.call);
    condition = step.call.term(body.outputs()[0]).settled();
    if (!condition) {
      recording.writer.take_back(mark);
      watch.take_back_all();
      return false;
    }
    for (std::size_t i = 0; i < carried.size(); ++i) carried[i] = step.call.term(body.outputs()[i + 1]);
  }
  watch.keep_writes();
  BlockRunner::release(body, step.call);
  for (std::size_t i = 0; i < carried.size(); ++i) env[step.node.outputs()[i]] = carried[i];
  return true;
}

}  // namespace

void carry_out_loop(Recording& recording, BlockRunner& blocks, const Step& step) {
  if (!unroll(recording, blocks, step)) DataLoop(recording, blocks, step).record();
}

}  // namespace whence::recorder::script
