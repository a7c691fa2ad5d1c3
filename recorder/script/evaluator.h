// Evaluator: runs a TorchScript program symbolically and writes down, as a Program, the operations it performs.
//
// It walks the graphs before inlining, because only there each call still names the module instance it is made on; it
// enters calls itself. Host computation (module attributes, containers, integers that come from no tensor) is carried
// out at once, as Python does while tracing; control flow whose condition is settled is followed, any other becomes a
// node with nested blocks. With example inputs every operation is also executed, at one size or at several in lockstep:
// dtypes and shapes are then those that PyTorch computed, and a size that differs between the runs is dynamic.
//
// Throws Error: run_failed, unsupported_feature.
#pragma once

#include "recorder/script/block_runner.h"
#include "recorder/script/objects.h"
#include "recorder/script/operations.h"
#include "recorder/script/quantized.h"
#include "recorder/script/recording.h"

namespace whence::recorder::script {

// The model runs at the sizes of the example, and not at the others of the dynamic axes.
struct SizeFailure {
  Diagnostics diagnostics;
  std::size_t reached = 0;  // number of values computed before; 0 if it is not one operation that fails
};

class Evaluator {
 public:
  Evaluator(Program& program, const archive::ModuleTree& tree, const inputs::ExampleInputs& inputs);

  // Evaluates forward of `root` and fills inputs, outputs, values, scopes, stacks, constants and the body.
  std::optional<SizeFailure> run(const torch::jit::Module& root);

  // Returns the witnesses that the model does not accept, and whose large sizes hide what the others show: where a
  // table of positions ends, a slice is shorter than the input. The last comes first.
  std::vector<int> misleading_runs() const;

  // Returns a failure if the model runs nowhere but near the example's size of some axis: sizes within one stride of
  // each other (15 and 16, halved) would hide a size that the program holds.
  std::optional<SizeFailure> lack_of_distant_runs() const;

  // Returns notes for the user about the evaluated program: attributes that it sets.
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
