// What PyTorch says when something fails, fit for a diagnostic: its first line, without the backtrace of its own C++.
#pragma once

#include <exception>
#include <string>

namespace whence::recorder {

std::string first_line(const std::string& text);  // the first that is not blank
std::string torch_message(const std::exception& error);

}  // namespace whence::recorder
