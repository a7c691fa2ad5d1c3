// Registers the operators that torch.ops.load_library makes available: whence::start, whence::name_call,
// whence::stop, whence::status.
#include <torch/library.h>

#include "recorder/live/session.h"
#include "schema/result.h"

namespace {

template <class Action>
auto said_to_python(const Action& action) {
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
  said_to_python([&] { whence::recorder::live::start(path); });
}
void name_call(const std::string& path) {
  said_to_python([&] { whence::recorder::live::name_call(path); });
}
std::string stop() {
  return said_to_python([] { return whence::recorder::live::stop(); });
}
std::string status() {
  return said_to_python([] { return whence::recorder::live::status(); });
}

}  // namespace

TORCH_LIBRARY(whence, library) {
  library.def("start(str path) -> ()", start);
  library.def("name_call(str path) -> ()", name_call);
  // The tracer would write the call into the user's graph.
  library.impl("name_call", torch::dispatch(c10::DispatchKey::Tracer, name_call));
  library.def("stop() -> str", stop);
  library.def("status() -> str", status);
}
