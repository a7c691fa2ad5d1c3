// Messages of PyTorch's errors, and refusals of unsupported features.
#pragma once

#include <exception>
#include <string>

#include "whence/diagnostics.h"

namespace whence::recorder {

std::string first_line(const std::string& text);  // skips blank lines
// Returns the first line of PyTorch's message, without the backtrace of its C++ code.
std::string torch_message(const std::exception& error);

// Throws Error(unsupported_feature). The evaluator adds the source location of the current node.
[[noreturn]] void refuse(const std::string& why, const std::string& remedy);

}  // namespace whence::recorder
