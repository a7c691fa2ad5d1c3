// Strip: takes back what annotate and place wrote. Annotating and stripping a file gives the original bytes.
#pragma once

#include <cstdint>
#include <string>

#include "annotator/onnx_file/carried_data.h"
#include "schema/result.h"

namespace whence::annotation {

struct StripReport {
  std::int64_t nodes = 0;     // nodes of bodies included
  std::int64_t stripped = 0;  // nodes that changed
  bool changed = false;       // false: whence had not annotated the file
};

// Writes `input` without whence's annotations to `output`, which may be the same file. Stays: export's stamps, metadata
// of others, also under a key that annotate could have written, and external data as annotate leaves it
// (carried_data.h). Errors: those of read_onnx_summary and rewrite_file.
Result<StripReport> strip_file(const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output);

}  // namespace whence::annotation
