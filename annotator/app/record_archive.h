// Records an archive: which module, call and source line each of its operations comes from, as a sidecar.
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

// `run`: runs the program with the example inputs of `options`, so that dtypes and shapes become known. Throws Error:
// those of read_options, load_operators, read_archive and write_sidecar.
RecordReport record_archive(const std::string& archive, const std::string& output, const Options& options, bool run);

}  // namespace whence::app
