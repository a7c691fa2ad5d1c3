// Escapes names for regular expressions of Python's re.
#pragma once

#include <string>
#include <string_view>

namespace whence::dialect {

// Returns the text with all special characters escaped.
inline std::string regex_escaped(std::string_view text) {
  std::string escaped;
  for (const char each : text) {
    if (std::string_view("\\^$.|?*+()[]{}").find(each) != std::string_view::npos) escaped += '\\';
    escaped += each;
  }
  return escaped;
}

}  // namespace whence::dialect
