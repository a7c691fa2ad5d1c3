// Subcommands that are written in Python: they run a model, which takes PyTorch or a runtime, or
// many commands, on one machine or a cluster.
#pragma once

#include <span>

namespace whence {

bool is_in_python(std::span<char*> arguments);

// Runs `python3 -m whence` with these arguments in the place of this process; $WHENCE_PYTHON names another Python. A
// command that was built and not installed takes the package of its source tree, and the Python of its build tree's
// virtual environment.
// Throws Error(usage) where that has no package whence.
[[noreturn]] void run_in_python(std::span<char*> arguments);

}  // namespace whence
