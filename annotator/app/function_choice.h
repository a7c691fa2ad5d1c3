// `--functions CHOICE`: which modules become local functions of the file that is written.
#pragma once

#include <string>

#include "whence/functions.h"

namespace whence::app {

// "auto", "types=A,B", "modules=GLOB,GLOB" or "depth=N". Throws Error(usage) for another word.
FunctionChoice parse_function_choice(const std::string& choice);

}  // namespace whence::app
