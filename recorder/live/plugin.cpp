// Registers the operators whence::start, whence::name_call, whence::stop and whence::status for
// torch.ops.load_library.
#include <torch/library.h>

#include "recorder/live/session.h"
#include "schema/result.h"

namespace {

template <class Action>
auto with_python_errors(const Action& action) {
  try {
    return action();
  } catch (const whence::Error& error) {
    std::string text;
    for (const whence::Diagnostic& diagnostic : error.diagnostics()) {
      text += (text.empty() ? "" : "\n") + to_text(diagnostic);
    }
    TORCH_CHECK(false, text);
  }
}

void start(const std::string& path) {
  with_python_errors([&] { whence::recorder::live::start(path); });
}
void name_call(const std::string& path) {
  with_python_errors([&] { whence::recorder::live::name_call(path); });
}
std::string stop() {
  return with_python_errors([] { return whence::recorder::live::stop(); });
}
std::string status() {
  return with_python_errors([] { return whence::recorder::live::status(); });
}

}  // namespace

TORCH_LIBRARY(whence, library) {
  library.def("start(str path) -> ()", start);
  library.def("name_call(str path) -> ()", name_call);
  // Without this kernel, the tracer would write the call into the user's graph.
  library.impl("name_call", torch::dispatch(c10::DispatchKey::Tracer, name_call));
  library.def("stop() -> str", stop);
  library.def("status() -> str", status);
}
