// Shared by `whence dot`, `whence graphml` and `whence model-explorer`, which write a drawing of one file to a file or
// to standard output.
#pragma once

#include <functional>
#include <string>

#include "annotator/app/views.h"
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

// The parts of write_drawing(): declare_drawing() declares the options of every drawing; put_drawing() writes a drawing
// to the output of `line` and prints a summary.
void declare_drawing(CommandLine& line, const DrawingKind& kind);
ExitCode put_drawing(const CommandLine& line, const app::Drawing& drawing,
                     const std::function<void(const view::PutText&)>& write);

}  // namespace whence
