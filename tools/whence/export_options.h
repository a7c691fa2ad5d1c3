// Parses the options of `whence export` and `whence record` into those of the C++ API (whence/options.h).
#pragma once

#include "tools/whence/cli.h"
#include "whence/options.h"

namespace whence {

void declare_export_options(CommandLine& line);
Options parse_export_options(const CommandLine& line);  // throws Error(usage)

// The options of both subcommands: --inputs, --input, --default-dtype and --library.
void declare_inputs(CommandLine& line);
void parse_inputs(const CommandLine& line, Options& options);

}  // namespace whence
