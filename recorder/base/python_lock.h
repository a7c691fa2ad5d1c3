// A graph that Python traced may hold Python objects (calls of torch.autograd.Function), which may be released only by
// a thread that holds Python's lock. The plugin's operators run without it, and the plugin does not link Python.
#pragma once

#include <functional>

namespace whence::recorder {

// Calls it with the lock if this process runs Python, else without; does not call it after Python has ended.
void with_python_lock(const std::function<void()>& step);

}  // namespace whence::recorder
