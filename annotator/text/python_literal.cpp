#include "annotator/text/python_literal.h"

#include <algorithm>
#include <charconv>

#include "schema/utf8.h"

namespace whence::text {
namespace {

constexpr int max_depth = 32;

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

void skip_spaces(std::string_view& text) { text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size())); }

bool take(std::string_view& text, char expected) {
  skip_spaces(text);
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<PythonLiteral> take_value(std::string_view& text, int depth);

// Takes the elements up to `end`; for a dict also their keys.
std::optional<PythonLiteral> take_elements(std::string_view& text, char end, int depth) {
  PythonLiteral all;
  all.kind = end == '}' ? PythonLiteral::Kind::dict : PythonLiteral::Kind::sequence;
  while (!take(text, end)) {
    auto element = take_value(text, depth);
    if (!element) return std::nullopt;
    if (all.kind == PythonLiteral::Kind::dict) {
      all.keys.push_back(std::move(*element));
      if (!take(text, ':')) return std::nullopt;
      element = take_value(text, depth);
      if (!element) return std::nullopt;
    }
    all.items.push_back(std::move(*element));
    if (take(text, ',')) continue;
    if (!take(text, end)) return std::nullopt;
    break;
  }
  return all;
}

std::optional<PythonLiteral> take_value(std::string_view& text, int depth) {
  if (depth > max_depth) return std::nullopt;
  if (take(text, '[')) return take_elements(text, ']', depth + 1);
  if (take(text, '(')) return take_elements(text, ')', depth + 1);
  if (take(text, '{')) return take_elements(text, '}', depth + 1);
  if (text.starts_with('\'') || text.starts_with('"')) {
    auto string = take_python_string(text);
    if (!string) return std::nullopt;
    return PythonLiteral{PythonLiteral::Kind::string, std::move(*string)};
  }
  const std::size_t length = std::min(text.find_first_of(" ,:()[]{}'\"\n"), text.size());
  if (length == 0) return std::nullopt;
  PythonLiteral word{PythonLiteral::Kind::word, std::string(text.substr(0, length))};
  text.remove_prefix(length);
  return word;
}

}  // namespace

std::optional<std::string> take_python_string(std::string_view& text) {
  if (!text.starts_with('\'') && !text.starts_with('"')) return std::nullopt;
  const char quote = text.front();
  std::string value;
  std::size_t at = 1;
  while (at < text.size() && text[at] != quote) {
    if (text[at] != '\\') {
      value += text[at++];
      continue;
    }
    const std::size_t length = take_escape(text.substr(at), value);
    if (length == 0) return std::nullopt;
    at += length;
  }
  if (at >= text.size()) return std::nullopt;
  text.remove_prefix(at + 1);
  return value;
}

std::optional<PythonLiteral> parse_python_literal(std::string_view text) {
  auto value = take_value(text, 0);
  skip_spaces(text);
  return text.empty() ? std::move(value) : std::nullopt;
}

}  // namespace whence::text
