// `--functions CHOICE`: which modules become local functions of the file that is written.
#pragma once

#include <string>

#include "whence/functions.h"

namespace whence::app {

// The remedy for a choice that is gone: to cut by the structure of the graph alone.
inline constexpr const char* annotate_first =
    "`whence annotate` the file with a sidecar or --from, then cut it by its modules: `whence functions` without a "
    "choice takes the repeated ones";

// "auto", "types=A,B", "modules=GLOB,GLOB" or "depth=N". Throws Error(usage) for another word.
FunctionChoice parse_function_choice(const std::string& choice);

}  // namespace whence::app
