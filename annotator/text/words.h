// Lists in one text: "a,b".
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

}  // namespace whence::text
