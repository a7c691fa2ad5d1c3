// Keeps sidecars and ONNX files apart by name: a command with swapped paths would replace a file that took long to
// make. Code that writes a sidecar or an ONNX file calls this first.
#pragma once

#include <string>

namespace whence {

// Throws Error(usage) if the path of a sidecar is named like an ONNX file: model.onnx.
void require_sidecar_name(const std::string& path);

// Throws Error(usage) if the path of an ONNX file is named like a sidecar: model.whence.json.
void require_model_name(const std::string& path);

}  // namespace whence
