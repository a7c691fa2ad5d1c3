// Recognises sidecars, archives and ONNX files, and reads the program of the first two.
#pragma once

#include <string>

#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence::app {

enum class FileKind {
  sidecar,  // JSON
  archive,  // TorchScript or torch.export
  onnx,     // everything else; the ONNX reader reports errors
};

// Returns the kind by the first bytes, and for a zip also by the name. Throws Error(missing_file) or another error of
// opening a file.
FileKind kind_of_file(const std::string& path);

// Reads the modules and operations of a sidecar or an archive, without running it. Throws Error.
Program read_program(const std::string& path, Diagnostics& notes);

}  // namespace whence::app
