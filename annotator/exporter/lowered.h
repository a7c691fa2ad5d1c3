// Lowers a program for conversion and decomposes operators without a converter that ATen defines by others.
#pragma once

#include <map>
#include <set>
#include <string>

#include "annotator/exporter/export.h"
#include "annotator/program/failure.h"

namespace whence::exporter {

// Operators whose converter refuses their arguments, with the refusal.
using Refused = std::map<std::string, Diagnostic>;

struct Lowered {
  Program program;  // if there are failures, only good for finding further ones
  Failures failures;
  Diagnostics notes;
};

// Lowers once if every operator has a converter, as in most programs; otherwise again with the remaining operators
// decomposed. `refused`: operators whose converter cannot convert this program.
Lowered lower_for_conversion(const Program& program, const ExportOptions& options, const Refused& refused);

}  // namespace whence::exporter
