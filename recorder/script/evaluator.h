// Evaluator: runs a TorchScript program symbolically, and records the operations that it performs as a Program.
//
// It walks the graphs before inlining, where each call still names its module instance, and enters calls itself. Host
// computation (module attributes, containers, integers that come from no tensor) is carried out at once, as Python does
// while tracing. Control flow with a settled condition is followed; other control flow becomes a node with nested
// blocks. With example inputs every operation is also executed, at one size or at several in lockstep: dtypes and
// shapes are then those that PyTorch computed, and a size that differs between the runs is dynamic.
//
// Throws Error: run_failed, unsupported_feature.
#pragma once

#include "recorder/script/block_runner.h"
#include "recorder/script/objects.h"
#include "recorder/script/operations.h"
#include "recorder/script/quantized.h"
#include "recorder/script/recording.h"

namespace whence::recorder::script {

// The model runs at the sizes of the example, but not at other sizes of the dynamic axes.
struct SizeFailure {
  Diagnostics diagnostics;
  std::size_t reached = 0;  // number of values computed before; 0 if no single operation failed
};

class Evaluator {
 public:
  Evaluator(Program& program, const archive::ModuleTree& tree, const inputs::ExampleInputs& inputs);

  // Evaluates forward of `root` and fills inputs, outputs, values, scopes, stacks, constants and the body.
  std::optional<SizeFailure> run(const torch::jit::Module& root);

  // Returns the check runs that failed and whose large sizes hide a symbol that the other runs show: a slice of a
  // position table, for example, is shorter than a long input. The last run is first.
  std::vector<int> misleading_runs() const;

  // Returns a failure if, for some axis, the model runs only near the example's size: sizes within one stride of each
  // other (15 and 16, halved) would hide a size of the example in the program.
  std::optional<SizeFailure> check_distant_runs() const;

  // Returns notes for the user about the evaluated program, such as attributes that it sets.
  const Diagnostics& notes() const { return recording_.writer.notes; }

 private:
  void evaluate(const torch::jit::Module& root);
  std::vector<Term> arguments(const torch::jit::Module& root, const c10::FunctionSchema& schema);
  Term call(torch::jit::Function& function, std::vector<Term> arguments, ScopeId scope, Stack callers);
  void carry_out(const Step& step);
  void dispatch(const Step& step);
  void call_method(const Step& step);
  void call_function(const Step& step);

  Program& program_;
  const inputs::ExampleInputs& inputs_;
  Recording recording_;
  Objects objects_;
  Quantized quantized_;
  Operations operations_;
  BlockRunner blocks_;
};

}  // namespace whence::recorder::script
