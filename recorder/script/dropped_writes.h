// Writes to constants that LibTorch drops while it loads an archive. It makes a tensor of its own of each mention of a
// constant, so that a write whose result is not used seems to have no effect. The archive's code still has it.
#pragma once

#include <optional>
#include <string>

#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence::recorder {

// The warning, where the code of the archive at `path` writes to constants more often than the program does.
std::optional<Diagnostic> dropped_writes(const std::string& path, const Program& program);

}  // namespace whence::recorder
