#include "annotator/text/python_list.h"

namespace whence::text {

std::optional<std::vector<std::string>> parse_python_list(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::vector<std::string> items;
  while (!text.empty()) {
    const char quote = text.front();
    if (quote != '\'' && quote != '"') return std::nullopt;
    std::string item;
    std::size_t at = 1;
    for (; at < text.size() && text[at] != quote; ++at) {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;  // \' and \\ stand for themselves in names
      item += text[at];
    }
    if (at >= text.size()) return std::nullopt;
    items.push_back(std::move(item));
    text.remove_prefix(at + 1);
    if (text.starts_with(", ")) {
      text.remove_prefix(2);
    } else if (!text.empty()) {
      return std::nullopt;
    }
  }
  return items;
}

}  // namespace whence::text
