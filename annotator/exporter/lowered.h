// Lowers a program for conversion, with the operators opened that have no converter and that ATen defines by others.
#pragma once

#include <map>
#include <set>
#include <string>

#include "annotator/exporter/export.h"
#include "annotator/program/failure.h"

namespace whence::exporter {

// Operators that are refused for what they are given, each with the refusal.
using Refused = std::map<std::string, Diagnostic>;

struct Lowered {
  Program program;  // good for finding further failures only, if there are any
  Failures failures;
  Diagnostics notes;
};

// Lowers once if every operator has a converter, which is so of most programs; else again with those opened that ATen
// defines by others. `refused`: operators that have a converter, which does not serve this program.
Lowered lower_for_conversion(const Program& program, const ExportOptions& options, const Refused& refused);

}  // namespace whence::exporter
