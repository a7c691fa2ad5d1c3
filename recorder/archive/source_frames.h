// Source ranges of TorchScript nodes as our stacks of frames.
#pragma once

#include <string>
#include <unordered_map>

#include "recorder/base/torch_pch.h"
#include "schema/program.h"

namespace whence::recorder {

// Interns stacks into program.stacks. A traced node carries the whole Python stack of its recording as text; a scripted
// node carries its own line only, and the callers' lines are added by the reader.
class SourceFrames {
 public:
  explicit SourceFrames(Program& program) : program_(program) {}

  // The stack of `node`, whose function is called `function`; `callers` (innermost first) completes a scripted one.
  StackId stack_of(const torch::jit::Node& node, const std::string& function, const Stack& callers);
  // How the recorder of live C++ modules knows the operation's module (live_mark.h).
  static ScopeBasis basis(const torch::jit::Node& node);
  // The stack of an operation that was traced in this process; none_id when tracing left none.
  StackId traced_stack(const torch::jit::SourceRange& range);
  // The one frame of a call site in scripted code; none for traced code.
  std::optional<Frame> call_site(const torch::jit::Node& node, const std::string& function);

 private:
  StackId intern(Stack stack);

  Program& program_;
  std::unordered_map<std::string, StackId> by_text_;  // raw trace text, or our own key
};

}  // namespace whence::recorder
