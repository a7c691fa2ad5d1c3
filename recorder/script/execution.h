// Executes an operation in every run that takes part, as PyTorch would.
#pragma once

#include "recorder/script/recording.h"

namespace whence::recorder::script {

// Executes the node and returns its outputs in each run that takes part. A check run that fails is dropped. Throws
// Error run_failed; baked_size; unsupported_feature for tensors that a Program cannot represent.
using Results = PerRun<std::optional<std::vector<c10::IValue>>>;
Results execute(Recording& recording, const Step& step, const std::vector<Term>& arguments);

// Sets the step's outputs to the results as values of `node`, which is not yet written.
void give_results(Recording& recording, const Step& step, const Results& results, bool known, Node& node);

// Calls the operator of `node`, which replaces its arguments on the stack with its results.
void call_operator(const torch::jit::Node& node, torch::jit::Stack& stack);

}  // namespace whence::recorder::script
