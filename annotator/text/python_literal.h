// Parses Python's repr of nested lists, tuples and dicts of strings, numbers, True, False and None, the format of
// columns in tables that pandas writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whence::text {

struct PythonLiteral {
  enum class Kind : std::uint8_t { string, word, sequence, dict };

  Kind kind = Kind::word;
  std::string text = {};                  // a string, or a number or name as it is written: "0.5", "None"
  std::vector<PythonLiteral> items = {};  // of a list or tuple
  std::vector<PythonLiteral> keys = {};   // of a dict; its values are in `items`
};

// Returns nullopt if the text does not have this format, or is nested more than 32 levels deep.
std::optional<PythonLiteral> parse_python_literal(std::string_view text);

// Removes the quoted string at the start of `text` and returns its value; nullopt for an invalid string.
std::optional<std::string> take_python_string(std::string_view& text);

}  // namespace whence::text
