// Strict number parsing: the complete text must be the number.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace whence {

// Returns nullopt if the text has other characters, such as blanks or a plus sign, or if the number does not fit.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// True for a non-empty text of decimal digits.
inline bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace whence
