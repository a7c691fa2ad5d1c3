// Parses `--functions CHOICE`, the modules that become local functions of the written file.
#pragma once

#include <string>

#include "whence/functions.h"

namespace whence::app {

// The remedy for the removed choice "structure", which used only the structure of the graph.
inline constexpr const char* annotate_first =
    "run `whence annotate` on the file with a sidecar or --from, then `whence functions`, which by default makes "
    "functions of repeated modules";

// Parses "auto", "types=A,B", "modules=GLOB,GLOB" or "depth=N". Throws Error(usage) for other texts.
FunctionChoice parse_function_choice(const std::string& choice);

}  // namespace whence::app
