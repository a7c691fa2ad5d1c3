// SourceFrames: turns source ranges of TorchScript nodes into stacks of frames.
#pragma once

#include <string>
#include <unordered_map>

#include "recorder/base/torch_pch.h"
#include "schema/program.h"

namespace whence::recorder::archive {

// Adds stacks to program.stacks, each once. A traced node carries the complete Python stack of its recording as text; a
// scripted node carries only its own line, to which the callers' lines are added.
class SourceFrames {
 public:
  explicit SourceFrames(Program& program) : program_(program) {}

  // Returns the stack of `node` in the function `function`; `callers` (innermost first) complete the stack of a
  // scripted node.
  StackId stack_of(const torch::jit::Node& node, const std::string& function, const Stack& callers);
  // Returns how the recorder of live C++ modules determined the operation's module (live_mark.h).
  static ScopeBasis basis(const torch::jit::Node& node);
  // Returns the stack of an operation that was traced in this process; none_id if the tracer recorded none.
  StackId traced_stack(const torch::jit::SourceRange& range);
  // Returns the frame of a call site in scripted code; none for traced code.
  std::optional<Frame> call_site(const torch::jit::Node& node, const std::string& function);

 private:
  StackId intern(Stack stack);

  Program& program_;
  std::unordered_map<std::string, StackId> by_text_;  // by the trace's text, or by whence's own key
};

}  // namespace whence::recorder::archive
