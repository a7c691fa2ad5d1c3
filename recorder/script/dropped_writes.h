// Finds writes to constants that LibTorch drops while it loads an archive. LibTorch makes a separate tensor for each
// use of a constant, so a write whose result is not used seems to have no effect. The archive's code still has the
// write.
#pragma once

#include <optional>
#include <string>

#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence::recorder::script {

// Returns a warning if the code of the archive at `path` has more writes to constants than the program.
std::optional<Diagnostic> dropped_writes(const std::string& path, const Program& program);

}  // namespace whence::recorder::script
