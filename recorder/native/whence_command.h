// Runs the whence command on a traced archive. The exporter links protobuf, which must not be loaded together with
// LibTorch's or the user's copy. So it runs in a process of its own, with the same LibTorch.
#pragma once

#include <string>
#include <vector>

#include "whence/diagnostics.h"

namespace whence::native {

// Runs `command` with `arguments` and --json. Returns its warnings. Throws Error with its diagnostics, or
// Error(needs_command) if it cannot be started.
Diagnostics run_whence(const std::string& command, const std::vector<std::string>& arguments);

}  // namespace whence::native
