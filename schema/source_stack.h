// The frames of a source stack that lead to a place that can be looked up. torch.export's stacks also hold frames of
// code that torch.fx generated for the graphs of cond and while_loop; PyTorch writes them down, so they are kept.
#pragma once

#include <string>
#include <string_view>

#include "schema/program.h"

namespace whence {

bool is_generated(const Frame& frame);

// source_place() of the innermost frame that is not generated; empty where there is none.
std::string source_place(const Stack& stack);

// The frames of a text that Python or PyTorch wrote of a stack, innermost first, with their source lines; those of
// PyTorch's call machinery are left out.
Stack read_python_trace(std::string_view text);

}  // namespace whence
