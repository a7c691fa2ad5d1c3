// Branch: evaluates prim::If. If the condition is settled, only the side that it selects is evaluated and is part of
// the Program; otherwise the branch becomes a node with both sides as nested blocks.
#pragma once

#include "recorder/script/block_runner.h"
#include "recorder/script/branch_merge.h"

namespace whence::recorder::script {

class Branch {
 public:
  Branch(Recording& recording, BlockRunner& blocks, const Step& step)
      : recording_(recording), blocks_(blocks), step_(step), condition_(step.in(0)) {}

  // Throws Error, through Recording::fail_at_second_size() if the model raises an exception at the second size.
  void carry_out();

 private:
  void drop_runs_that_raise();
  std::optional<std::size_t> side_to_follow() const;
  void follow(const torch::jit::Block& taken);
  void record();
  BranchSide run_side(std::size_t side, const PerRun<bool>& takes);

  Recording& recording_;
  BlockRunner& blocks_;
  const Step& step_;
  Term condition_;
};

}  // namespace whence::recorder::script
