// The recorder's diagnostics: errors of PyTorch, refusals and warnings.
#pragma once

#include <exception>
#include <string>

#include "whence/diagnostics.h"

namespace whence::recorder {

std::string first_line(const std::string& text);  // the first that is not blank
// Returns the first line of PyTorch's message, without the backtrace of its C++ code.
std::string torch_message(const std::exception& error);

// Throws Error unsupported_feature. The evaluator adds the place of the node that is being evaluated.
[[noreturn]] void refuse(const std::string& why, const std::string& remedy);

}  // namespace whence::recorder
