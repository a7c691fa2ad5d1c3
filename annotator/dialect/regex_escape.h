// Names as regular expressions of Python's re.
#pragma once

#include <string>
#include <string_view>

namespace whence::dialect {

// The text with every character escaped that means something in a pattern.
inline std::string regex_escaped(std::string_view text) {
  std::string escaped;
  for (const char each : text) {
    if (std::string_view("\\^$.|?*+()[]{}").find(each) != std::string_view::npos) escaped += '\\';
    escaped += each;
  }
  return escaped;
}

}  // namespace whence::dialect
