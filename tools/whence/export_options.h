// The options of `whence export` and `whence record` as those of the C++ API (whence/options.h).
#pragma once

#include "tools/whence/cli.h"
#include "whence/options.h"

namespace whence {

void declare_export_options(CommandLine& line);
Options parse_export_options(const CommandLine& line);  // throws Error(usage)

// --inputs, --input, --default-dtype and --library: what both subcommands take.
void declare_inputs(CommandLine& line);
void parse_inputs(const CommandLine& line, Options& options);

}  // namespace whence
