// Patterns of a command line, compiled together (RE2::Set): a name is compared with all of them in one pass over it.
//
// A pattern `re:PATTERN` is a regular expression in RE2's syntax (https://github.com/google/re2/wiki/Syntax) that must
// match the whole name. Another text is, for qualified names, a glob by whole segments: `encoder.layer.*.attention`
// matches one segment at the star, `**` matches any number of segments, none included. Within a segment `*` and `?`
// match characters, and `[0-3]`, `[!a-c]` one of a set. The empty glob matches the root alone; `layer` does not match
// `layers`, nor `encoder.layer`. For names without segments another text stands for itself.
//
// A name that is not UTF-8 is compared in the form in which it is shown (schema/printable.h).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace whence::text {

class Patterns {
 public:
  // Both throw Error(usage) for a pattern that RE2 refuses, with its reason and the piece that it refuses.
  static Patterns of_paths(const std::vector<std::string>& patterns);
  static Patterns of_names(const std::vector<std::string>& patterns);

  // Returns true if one of the patterns matches; false when there are none.
  bool match(std::string_view name) const;

  // Returns which of the patterns match, ascending.
  std::vector<std::size_t> matching(std::string_view name) const;

 private:
  struct Compiled;
  explicit Patterns(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}

  std::shared_ptr<const Compiled> compiled_;
};

// Returns the items of "a,b". `re:PATTERN` takes the rest of the list, commas included.
std::vector<std::string> split_patterns(std::string_view list);

// Returns the glob as a regular expression for a whole qualified name.
std::string glob_expression(std::string_view glob);

}  // namespace whence::text
