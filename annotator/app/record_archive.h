// Records the module, call and source line of each operation of an archive in a sidecar.
#pragma once

#include <string>

#include "schema/program.h"
#include "whence/diagnostics.h"
#include "whence/options.h"

namespace whence::app {

struct RecordReport {
  Program program;
  Diagnostics notes;
};

// `run`: also runs the program with the example inputs of `options`, to record dtypes and shapes. Throws Error as
// read_options(), load_operators(), read_archive() and write_sidecar() do.
RecordReport record_archive(const std::string& archive, const std::string& output, const Options& options, bool run);

}  // namespace whence::app
