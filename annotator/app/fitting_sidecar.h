// Reads the sidecar for a view of ONNX files, and checks that it belongs to them: another one would silently add
// modules of another model, or nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "schema/sidecar/sidecar.h"

namespace whence::app {

// Returns nullopt without a path. Throws like read_sidecar(), and Error(sidecar_mismatch) if all of `models` state that
// they were exported from or annotated with another program. A file that states no program may belong to any.
std::optional<Sidecar> read_fitting_sidecar(const std::optional<std::string>& path,
                                            const std::vector<const onnx_file::OnnxSummary*>& models,
                                            Diagnostics& notes);

// Reads a sidecar without this check. Throws like read_sidecar().
std::optional<Sidecar> read_sidecar_if_given(const std::optional<std::string>& path, Diagnostics& notes);

// Returns the program of an optional sidecar, or null.
inline const Program* program_of(const std::optional<Sidecar>& sidecar) {
  return sidecar ? &sidecar->program : nullptr;
}

}  // namespace whence::app
