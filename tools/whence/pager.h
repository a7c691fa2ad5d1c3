// Long text on a terminal: through $PAGER, or `less -FRX`, when it is longer than the screen. Elsewhere, in files and
// pipes, text is printed as it is.
#pragma once

#include <string>

#include "tools/whence/cli.h"

namespace whence {

void declare_pager(CommandLine& line);  // --no-pager
// To standard output. A pager that cannot be started, or is set to nothing, is none.
void print_paged(const std::string& text, const CommandLine& line);

}  // namespace whence
