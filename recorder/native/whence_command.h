// Runs the whence command on a traced archive. The exporter links protobuf, which must not meet LibTorch's or the
// user's own copy in one process, so it runs in a process of its own, on the same LibTorch.
#pragma once

#include <string>
#include <vector>

#include "whence/diagnostics.h"

namespace whence::native {

// `arguments` without the command itself; --json is added. Returns its warnings; throws Error with its diagnostics, or
// Error(needs_command) when it cannot be started.
Diagnostics run_whence(const std::string& command, const std::vector<std::string>& arguments);

}  // namespace whence::native
