#include "annotator/text/python_list.h"

#include "annotator/text/python_literal.h"

namespace whence::text {

std::optional<std::vector<std::string>> parse_python_list(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::vector<std::string> items;
  while (!text.empty()) {
    auto item = take_python_string(text);
    if (!item) return std::nullopt;
    items.push_back(std::move(*item));
    if (text.starts_with(", ")) {
      text.remove_prefix(2);
    } else if (!text.empty()) {
      return std::nullopt;
    }
  }
  return items;
}

}  // namespace whence::text
