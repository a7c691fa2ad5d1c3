// A graph that Python traced may hold objects of Python (calls of torch.autograd.Function), which may only be let go by
// who holds Python's lock. The plugin's operators run without it, and the plugin does not link Python.
#pragma once

#include <functional>

namespace whence::recorder {

// With the lock where this process runs Python, else as it is; not at all once Python has ended.
void with_python_lock(const std::function<void()>& step);

}  // namespace whence::recorder
