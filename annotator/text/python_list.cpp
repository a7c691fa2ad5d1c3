#include "annotator/text/python_list.h"

#include <charconv>

#include "schema/utf8.h"

namespace whence::text {
namespace {

// Decodes the escape at the start of `text`, appends the character to `to` and returns the length of the escape: \n,
// \x1b, \u2028, \U0001f600; any other character stands for itself. Returns 0 for an invalid escape.
std::size_t take_escape(std::string_view text, std::string& to) {
  constexpr std::string_view named = "nrt", characters = "\n\r\t";
  if (text.size() < 2) return 0;
  if (const std::size_t found = named.find(text[1]); found != std::string_view::npos) {
    to += characters[found];
    return 2;
  }
  const std::size_t digits = text[1] == 'x' ? 2 : text[1] == 'u' ? 4 : text[1] == 'U' ? 8 : 0;
  if (digits == 0) {
    to += text[1];
    return 2;
  }
  std::uint32_t code = 0;
  if (text.size() < 2 + digits) return 0;
  const auto [end, failure] = std::from_chars(text.data() + 2, text.data() + 2 + digits, code, 16);
  if (failure != std::errc() || end != text.data() + 2 + digits || code > 0x10ffff) return 0;
  append_utf8(code, to);
  return 2 + digits;
}

}  // namespace

std::optional<std::vector<std::string>> parse_python_list(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::vector<std::string> items;
  while (!text.empty()) {
    const char quote = text.front();
    if (quote != '\'' && quote != '"') return std::nullopt;
    std::string item;
    std::size_t at = 1;
    while (at < text.size() && text[at] != quote) {
      if (text[at] != '\\') {
        item += text[at++];
        continue;
      }
      const std::size_t escape = take_escape(text.substr(at), item);
      if (escape == 0) return std::nullopt;
      at += escape;
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
