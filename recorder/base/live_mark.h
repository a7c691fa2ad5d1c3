// Marks that the recorder of live C++ modules writes into a TorchScript archive for the archive reader.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

namespace whence::recorder {

// The last line of an operation's source text if its module was inferred, or if only an enclosing module is known.
inline constexpr std::string_view inferred_mark = "<module inferred>";
inline constexpr std::string_view enclosing_mark = "<module around>";
// An extra file in the archive, which exists if the archive was made from a live C++ module.
inline constexpr const char* live_file = "whence_live";

// The content of `live_file`: a word, and a line for each dynamic size.
struct LiveMark {
  bool kept = false;                          // true if the archive still exists after the export
  std::map<std::string, std::int64_t> least;  // the smallest traced size by name
};

inline std::string to_text(const LiveMark& mark) {
  std::string text = mark.kept ? "kept" : "gone";
  for (const auto& [name, size] : mark.least) text += "\n" + std::to_string(size) + " " + name;
  return text;
}

inline LiveMark read_live_mark(const std::string& text) {
  std::istringstream lines(text);
  LiveMark mark;
  std::string name;
  if (std::getline(lines, name)) mark.kept = name == "kept";
  for (std::int64_t size = 0; lines >> size >> std::ws && std::getline(lines, name);) mark.least[name] = size;
  return mark;
}

// A C++ module may be named `in` or a parameter `lambda`, which are keywords in the Python code of an archive. The
// archive appends "!" to keywords; since the result is no identifier, the code uses getattr(self, "in!").
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
