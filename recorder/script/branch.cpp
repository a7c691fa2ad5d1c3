#include "recorder/script/branch.h"

#include <algorithm>

#include "recorder/script/execution.h"
#include "recorder/script/restore.h"

namespace whence::recorder::script {

namespace jit = torch::jit;

namespace {

bool raises(const jit::Block& block) {
  return std::ranges::any_of(block.nodes(),
                             [](const jit::Node* node) { return node->kind() == c10::prim::RaiseException; });
}

}  // namespace

void Branch::carry_out() {
  drop_runs_that_raise();
  if (const auto side = side_to_follow()) return follow(*step_.node.blocks()[*side]);
  record();
}

void Branch::follow(const jit::Block& taken) {
  blocks_.run(taken, step_.call);
  for (std::size_t i = 0; i < step_.node.outputs().size(); ++i) {
    step_.call.env[step_.node.outputs()[i]] = step_.call.term(taken.outputs()[i]);
  }
}

// Returns the side to follow, if only one matters: the side that a settled condition selects, or the side that does not
// raise an exception if the other one does. ONNX cannot raise exceptions, so the exported model agrees with the
// original only for inputs that the original accepts. Example inputs that raise are refused at that node.
std::optional<std::size_t> Branch::side_to_follow() const {
  if (const auto settled = condition_.settled()) return settled->toBool() ? 0 : 1;
  const std::array<bool, 2> raising{raises(*step_.node.blocks()[0]), raises(*step_.node.blocks()[1])};
  if (raising[0] == raising[1]) return std::nullopt;
  for (int run = 0; run < recording_.runs.count; ++run) {
    const auto& taken = condition_.seen[run];
    if (recording_.runs.active[run] && taken && taken->toBool() == raising[0]) return std::nullopt;
  }
  return raising[0] ? 1 : 0;
}

// Handles a model that accepts the example but raises an exception at another size. At the second size this is an
// error; a check run is dropped.
void Branch::drop_runs_that_raise() {
  if (condition_.settled()) return;
  Lockstep& runs = recording_.runs;
  const auto raises_in = [&](int run) {
    const auto& taken = condition_.seen[run];
    const bool counts = run < runs.count && runs.takes_part(run) && !runs.off_path[run] && taken;
    return counts && raises(*step_.node.blocks()[taken->toBool() ? 0 : 1]);
  };
  if (raises_in(0)) return;  // reported where it raises
  for (int run = 2; run < runs.count; ++run) {
    if (raises_in(run)) runs.alive[run] = false;
  }
  if (!raises_in(1)) return;
  recording_.fail_at_second_size("the model raises an error at a size that a dynamic axis would allow",
                                 "let the model take other sizes, or leave that axis out of --dynamic");
}

void Branch::record() {
  Node node;
  node.target = "prim::If";
  node.arguments.push_back({"condition", program::argument(condition_, nullptr)});
  node.origin = recording_.writer.origin_of_block(step_);
  node.blocks.resize(2);

  PerRun<bool> first, second;
  first.fill(true);
  for (int run = 0; run < recording_.runs.count; ++run) {
    const auto& taken = condition_.seen[run];
    if (taken) first[run] = taken->toBool();
    second[run] = !taken || !first[run];
  }
  const auto first_inside = ValueId(recording_.values.size());
  std::array<BranchSide, 2> sides;
  for (std::size_t side = 0; side < 2; ++side) {
    Restore sink(recording_.writer.sink);
    recording_.writer.sink = &node.blocks[side].nodes;
    sides[side] = run_side(side, side == 0 ? first : second);
  }
  BranchMerge merge(recording_, sides, first, first_inside, node);
  for (std::size_t i = 0; i < step_.node.outputs().size(); ++i) {
    const jit::Value& output = *step_.node.outputs()[i];
    Term& result = step_.call.env[&output] = merge.result(i, output.debugName(), output.type());
    if (output.type()->kind() == c10::TypeKind::BoolType) {
      recording_.sizes.note_choice(result, condition_, sides[0].results[i], sides[1].results[i]);
    }
  }
  merge.set_changed();
  if (!merge.replacements().empty()) {
    merge.replacements().refuse_changes(recording_.changes, reachable_containers(recording_, step_, Reach::after));
  }
  if (merge.ranks_differ() && condition_.seen[0]) {
    node.arguments.push_back({std::string(example_argument), {first[0]}});
  }
  recording_.writer.write(std::move(node));
}

// Evaluates one side. Runs that do not take it evaluate it too, for its shapes; a run that fails there has none.
BranchSide Branch::run_side(std::size_t side, const PerRun<bool>& takes) {
  Lockstep& runs = recording_.runs;
  Restore depth(runs.depth);
  Restore off_path(runs.off_path);
  ++runs.depth;
  PerRun<bool> not_taking{};
  for (int run = 0; run < runs.count; ++run) {
    not_taking[run] = !takes[run];
    runs.off_path[run] = runs.off_path[run] || not_taking[run];
  }
  Watch watch(recording_.changes, runs.depth, not_taking);
  const jit::Block& block = *step_.node.blocks()[side];
  recording_.sizes.enter_side(condition_, side == 0);
  blocks_.run(block, step_.call);
  recording_.sizes.leave_side();
  BranchSide left;
  for (const jit::Value* output : block.outputs()) left.results.push_back(step_.call.term(output));
  BlockRunner::release(block, step_.call);
  left.changed = std::move(watch.changed);
  for (ChangedContainer& container : left.changed) left.contents.push_back(container.take_back());
  return left;
}

}  // namespace whence::recorder::script
