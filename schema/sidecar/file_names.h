// The names by which sidecars and ONNX files are kept apart: a command that was given the one for the other would
// replace a file that took long to make. Everything that writes either asks here first.
#pragma once

#include <string>

namespace whence {

// Throws Error(usage) for a sidecar's path that is named as an ONNX file: model.onnx.
void require_sidecar_name(const std::string& path);

// Throws Error(usage) for an ONNX file's path that is named as a sidecar: model.whence.json.
void require_model_name(const std::string& path);

}  // namespace whence
