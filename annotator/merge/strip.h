// Strip: takes back what annotate wrote. Annotating and stripping a file gives the original bytes.
#pragma once

#include <cstdint>
#include <string>

#include "schema/result.h"

namespace whence {

struct StripReport {
  std::int64_t nodes = 0;     // those of bodies included
  std::int64_t stripped = 0;  // nodes that changed
  bool changed = false;       // false: whence had not annotated the file
};

// Writes `input` without whence's annotations to `output`, which may be the same file. Stays: export's stamps, metadata
// of others, also under a key that annotate could have written, and external data as annotate leaves it.
// Errors: those of read_onnx_summary; outside_folder; cannot_write.
Result<StripReport> strip_file(const std::string& input, const std::string& output);

}  // namespace whence
