// Splits lists, "a,b", and formats counts, "1 node".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace whence::text {

// "a,b" -> {"a", "b"}; "" -> {}; "a," -> {"a", ""}.
inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
    if (text.empty()) parts.emplace_back();
  }
  return parts;
}

// counted(1, "node") -> "1 node"; counted(2, "node") -> "2 nodes".
template <class Number>
std::string counted(Number number, std::string_view noun) {
  return std::to_string(number) + " " + std::string(noun) + (number == 1 ? "" : "s");
}

}  // namespace whence::text
