// Marks that the recorder of live C++ modules leaves in a TorchScript archive for the reader of archives.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace whence::recorder {

// The last line of an operation's source text, if its module was inferred, or if only an enclosing module is known.
inline constexpr std::string_view inferred_mark = "<module inferred>";
inline constexpr std::string_view enclosing_mark = "<module around>";
// A file of the archive beside the program; it is there when the archive was made of a live C++ module.
inline constexpr const char* live_file = "whence_live";

// C++ may call a module `in` or a parameter `lambda`, which are keywords in the Python code of an archive. Such names
// get a "!" in the archive; as this is not an identifier, the code reads getattr(self, "in!").
inline bool is_python_keyword(std::string_view name) {
  static constexpr std::array<std::string_view, 35> keywords = {
      "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
      "class", "continue", "def",   "del",    "elif", "else",   "except", "for",      "finally",
      "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
      "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};
  return std::find(keywords.begin(), keywords.end(), name) != keywords.end();
}

inline std::string to_archive_name(const std::string& name) { return is_python_keyword(name) ? name + "!" : name; }

inline std::string from_archive_name(const std::string& name) {
  const std::string_view plain = std::string_view(name).substr(0, name.size() - (name.empty() ? 0 : 1));
  return name.ends_with('!') && is_python_keyword(plain) ? std::string(plain) : name;
}

}  // namespace whence::recorder
