#include "annotator/origin/python_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace whence::origin {

std::string python_repr(std::string_view text) {
  const bool double_quotes = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  constexpr std::string_view hex = "0123456789abcdef";
  std::string result(1, quote);
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\r') {
      result += "\\r";
    } else if (c == '\t') {
      result += "\\t";
    } else if (code < 0x20 || code == 0x7f) {
      result += "\\x";
      result += hex[code >> 4];
      result += hex[code & 15];
    } else {
      result += c;
    }
  }
  return result + quote;
}

std::string python_repr(const std::vector<std::string>& texts) {
  std::string result = "[";
  for (const std::string& text : texts) {
    if (result.size() > 1) result += ", ";
    result += python_repr(text);
  }
  return result + "]";
}

// Like Python, uses the shortest digits that parse to the same number, and an exponent if it is below -4 or at
// least 16.
std::string python_float(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer;
  char* end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::scientific).ptr;
  const std::string scientific(buffer.data(), end);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  if (exponent < -4 || exponent >= 16) return scientific;
  std::array<char, 64> plain;
  end = std::to_chars(plain.data(), plain.data() + plain.size(), number, std::chars_format::fixed).ptr;
  std::string text(plain.data(), end);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace whence::origin
