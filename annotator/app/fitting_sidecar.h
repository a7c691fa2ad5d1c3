// The sidecar of a view of ONNX files: one that cannot belong to them would add modules of another model, or add
// nothing, without a word.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "schema/sidecar/sidecar.h"

namespace whence::app {

// None without a path. Throws what read_sidecar does, and Error(sidecar_mismatch) when each of `models` says itself
// that it was exported from or annotated with another program. A file that says neither may be of any.
std::optional<Sidecar> read_fitting_sidecar(const std::optional<std::string>& path,
                                            const std::vector<const onnx_file::OnnxSummary*>& models,
                                            Diagnostics& notes);

// The same for any files: throws what read_sidecar does.
std::optional<Sidecar> read_sidecar_if_given(const std::optional<std::string>& path, Diagnostics& notes);

// The program of a sidecar that may be missing, as views take it.
inline const Program* program_of(const std::optional<Sidecar>& sidecar) {
  return sidecar ? &sidecar->program : nullptr;
}

}  // namespace whence::app
