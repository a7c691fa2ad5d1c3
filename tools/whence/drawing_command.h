// Shared by `whence dot` and `whence graphml`: one file in, one drawing out, to a file or to standard output.
#pragma once

#include <string>

#include "annotator/view/drawing_files.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"

namespace whence {

struct DrawingKind {
  const char* command;
  const char* example;  // a name for the output
  const char* description;
  void (*write)(const view::NodeGraph&, const view::PutText&);
};

ExitCode write_drawing(int argc, char** argv, const DrawingKind& kind);

}  // namespace whence
