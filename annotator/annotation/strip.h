// Strip: removes the entries that annotate and place wrote. Annotating and then stripping a file gives the original
// bytes.
#pragma once

#include <cstdint>
#include <string>

#include "annotator/onnx_file/carried_data.h"
#include "schema/result.h"

namespace whence::annotation {

struct StripReport {
  std::int64_t nodes = 0;     // including nodes of bodies
  std::int64_t stripped = 0;  // nodes that changed
  bool changed = false;       // false if whence had not annotated the file
};

// Writes `input` without whence's annotations to `output`, which may be the same file. Keeps export's stamps and
// metadata of other tools, even under keys that annotate uses. Handles external data like annotate (carried_data.h).
// Errors: the errors of read_onnx_summary and rewrite_file.
Result<StripReport> strip_file(const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output);

}  // namespace whence::annotation
