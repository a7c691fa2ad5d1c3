// Executes an operation in every run that takes part, as PyTorch would.
#pragma once

#include "recorder/script/recording.h"

namespace whence::recorder {

// Only the second size fails: another one may not.
struct SecondRunFailed : Error {
  using Error::Error;
  std::size_t reached = 0;  // values computed before: how far it got
};

// What each run that takes part makes of the node's outputs. A witness that fails drops out. Throws Error run_failed;
// SecondRunFailed; Error unsupported_feature for tensors that have no form in a Program.
using Results = PerRun<std::optional<std::vector<c10::IValue>>>;
Results execute(Recording& recording, const Step& step, const std::vector<Term>& arguments);

// Sets the step's outputs to the results as values of `node`, a node that is not yet written.
void give_results(Recording& recording, const Step& step, const Results& results, bool known, Node& node);

// Calls the operator of `node`; `stack` has its arguments and then its results.
void call_operator(const torch::jit::Node& node, torch::jit::Stack& stack);

}  // namespace whence::recorder
