// Frames of a source stack. torch.export's stacks also contain frames of code that torch.fx generated for the graphs of
// cond and while_loop. They are kept, as in PyTorch's metadata, but have no source file.
#pragma once

#include <string>
#include <string_view>

#include "schema/program.h"

namespace whence {

bool is_generated(const Frame& frame);

// Returns source_place() of the innermost frame that is not generated; empty if there is none.
std::string source_place(const Stack& stack);

// Parses a traceback of Python or PyTorch. Returns the frames innermost first, with their source lines and without
// PyTorch's call machinery.
Stack read_python_trace(std::string_view text);

}  // namespace whence
