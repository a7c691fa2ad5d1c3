// Takes Python's global lock (GIL) without linking Python. A traced graph may hold Python objects (calls of
// torch.autograd.Function), which only a thread with the lock may release, and the plugin's operators run without it.
#pragma once

#include <functional>

namespace whence::recorder {

// Calls `step` with the lock if this process runs Python, else without it. Does not call it after Python has ended.
void with_python_lock(const std::function<void()>& step);

}  // namespace whence::recorder
