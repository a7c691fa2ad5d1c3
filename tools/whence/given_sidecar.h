// The sidecar of --sidecar, for views of ONNX files: one that cannot belong to them would add modules of another model,
// or say nothing, without a word.
#pragma once

#include <optional>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "schema/sidecar/sidecar.h"
#include "tools/whence/cli.h"

namespace whence {

// None without the option. Throws what read_sidecar does, and Error(sidecar_mismatch) when each of `models` says itself
// that it was exported from or annotated with another program. A file that says neither may be of any.
std::optional<Sidecar> read_given_sidecar(const CommandLine& line,
                                          const std::vector<const onnx_file::OnnxSummary*>& models, Diagnostics& notes);

}  // namespace whence
