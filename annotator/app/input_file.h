// Files of any kind that knows modules: recognises the kind, and reads the program.
#pragma once

#include <string>

#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence::app {

enum class FileKind {
  sidecar,  // JSON
  archive,  // TorchScript or torch.export
  onnx,     // everything else; its reader says what is wrong with it
};

// By the first bytes, and for a zip the name. Throws Error(missing_file) and what opening a file throws.
FileKind kind_of_file(const std::string& path);

// The program of a sidecar or an archive, modules and operations alone: nothing is run. Throws Error.
Program read_program(const std::string& path, Diagnostics& notes);

}  // namespace whence::app
