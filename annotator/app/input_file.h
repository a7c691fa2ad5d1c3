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

// Returns the kind by the first bytes, and for a zip also by the name. Throws Error(missing_file), and as opening a
// file does.
FileKind kind_of_file(const std::string& path);

// Reads the program of a sidecar or an archive, only modules and operations; runs nothing. Throws Error.
Program read_program(const std::string& path, Diagnostics& notes);

}  // namespace whence::app
