// Finds Python's functions at run time with dlsym().
#include "recorder/base/python_lock.h"

#include <dlfcn.h>

namespace whence::recorder {

void with_python_lock(const std::function<void()>& step) {
  using IsInitialized = int (*)();
  using Ensure = int (*)();
  using Release = void (*)(int);
  const auto is_initialized = reinterpret_cast<IsInitialized>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  const auto ensure = reinterpret_cast<Ensure>(dlsym(RTLD_DEFAULT, "PyGILState_Ensure"));
  const auto release = reinterpret_cast<Release>(dlsym(RTLD_DEFAULT, "PyGILState_Release"));
  if (is_initialized == nullptr || ensure == nullptr || release == nullptr) return step();
  if (is_initialized() == 0) return;
  const int state = ensure();
  step();
  release(state);
}

}  // namespace whence::recorder
