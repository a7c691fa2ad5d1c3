// Patterns of a command line, compiled together (RE2::Set): one pass over a name compares it with all of them.
//
// A pattern `re:PATTERN` is a regular expression in RE2's syntax (https://github.com/google/re2/wiki/Syntax) that must
// match the whole name. For qualified names, any other text is a glob over whole segments: in
// `encoder.layer.*.attention` the star matches one segment; `**` matches any number of segments, including none. Within
// a segment, `*` and `?` match characters, and `[0-3]`, `[!a-c]` one of a set. The empty glob matches only the root;
// `layer` matches neither `layers` nor `encoder.layer`. A glob also matches the name that is equal to it: `x[0]`
// matches `x0` and `x[0]`. For names without segments, any other text matches only itself.
//
// A name that is not UTF-8 is compared in its printable form (schema/printable.h).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace whence::text {

class Patterns {
 public:
  // Both throw Error(usage) for a pattern that RE2 rejects, with RE2's reason and an example of a pattern.
  static Patterns of_paths(const std::vector<std::string>& patterns);
  static Patterns of_names(const std::vector<std::string>& patterns, std::string_view example = "re:Conv|MatMul");

  // Returns true if one of the patterns matches; false if there are no patterns.
  bool match(std::string_view name) const;

  // Returns the indices of the matching patterns, ascending.
  std::vector<std::size_t> matching(std::string_view name) const;

 private:
  struct Compiled;
  explicit Patterns(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}

  std::shared_ptr<const Compiled> compiled_;
};

// Returns the items of "a,b". `re:PATTERN` includes the rest of the list, commas included.
std::vector<std::string> split_patterns(std::string_view list);

// Returns the glob as a regular expression for a whole qualified name.
std::string glob_expression(std::string_view glob);

}  // namespace whence::text
