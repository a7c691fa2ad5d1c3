// Baseline: the coverage of an earlier file, for comparison. It is read from the output of `whence validate --json`
// for that file, or computed from the ONNX file itself.
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
  std::optional<NamingCounts> naming;  // absent from reports of older versions
};

// `program` may be null and is used only if `path` is an ONNX file. Throws Error: missing_file, empty_file; wrong_kind
// for a JSON file that is not a report of validate; the errors of read_onnx_summary for an ONNX file.
Baseline read_baseline(const std::string& path, const Program* program);

}  // namespace whence::validation
