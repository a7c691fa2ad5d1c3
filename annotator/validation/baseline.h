// Baseline: a file of before, to compare with: what `whence validate --json` printed of it, or the ONNX file itself.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annotator/validation/coverage.h"
#include "annotator/validation/naming.h"

namespace whence::validation {

struct Baseline {
  std::string file;  // base name of the ONNX file
  origin::Counts all;
  std::vector<std::pair<std::string, origin::Counts>> modules;
  std::optional<NamingCounts> naming;  // reports of older versions do not say
};

// `program` may be null; it is asked for an ONNX file alone. Throws Error: missing_file, empty_file; wrong_kind for a
// JSON file that is not a report of validate; those of read_onnx_summary for the rest.
Baseline read_baseline(const std::string& path, const Program* program);

}  // namespace whence::validation
