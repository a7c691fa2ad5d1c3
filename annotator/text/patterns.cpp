#include "annotator/text/patterns.h"

#include <algorithm>
#include <utility>

#include <re2/re2.h>
#include <re2/set.h>

#include "annotator/text/path_segments.h"
#include "annotator/text/words.h"
#include "schema/printable.h"
#include "schema/result.h"

namespace whence::text {

namespace {

constexpr std::string_view expression_prefix = "re:";

// Matches no character.
constexpr std::string_view no_character = "[^\\x00-\\x{10FFFF}]";

re2::RE2::Options expression_options() {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(std::int64_t{64} << 20);  // enough for ten thousand globs
  return options;
}

std::string escaped(std::string_view text) { return re2::RE2::QuoteMeta(text); }

// Translates the characters between the brackets of a set, with ranges as a-b. A set never matches a dot, because a dot
// ends a segment.
std::string set_expression(std::string_view items) {
  const bool negated = items.starts_with('!');
  if (negated) items.remove_prefix(1);
  std::string listed;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i + 2 >= items.size() || items[i + 1] != '-') {
      listed += escaped(items.substr(i, 1));
      continue;
    }
    const auto low = static_cast<unsigned char>(items[i]), high = static_cast<unsigned char>(items[i + 2]);
    const std::string from = escaped(items.substr(i, 1)), to = escaped(items.substr(i + 2, 1));
    i += 2;
    if (low > high && low < 0x80) continue;  // an empty range
    const bool holds_dot = low < '.' && '.' < high;
    listed += from + (holds_dot ? "-\\-/-" : "-") + to;
  }
  if (negated) return "[^." + listed + "]";
  return listed.empty() ? std::string(no_character) : "[" + listed + "]";
}

// Translates one segment. An unclosed bracket is an ordinary character.
std::string segment_expression(std::string_view segment) {
  if (segment.empty()) return std::string(no_character);
  if (segment.find_first_not_of('*') == std::string_view::npos) return "[^.]+";
  std::string expression;
  for (std::size_t i = 0; i < segment.size(); ++i) {
    const std::size_t end = segment[i] == '[' ? segment.find(']', i + 2) : std::string_view::npos;
    if (segment[i] == '*') {
      if (i == 0 || segment[i - 1] != '*') expression += "[^.]*";
    } else if (segment[i] == '?') {
      expression += "[^.]";
    } else if (end != std::string_view::npos) {
      expression += set_expression(segment.substr(i + 1, end - i - 1));
      i = end;
    } else {
      // Bytes of one character stay adjacent: RE2 reads them as UTF-8.
      expression += escaped(segment.substr(i, 1));
    }
  }
  return expression;
}

std::string path_expression(const std::string& pattern) {
  if (pattern.starts_with(expression_prefix)) return pattern.substr(expression_prefix.size());
  // `*` and `?` match themselves, but a set does not match its brackets.
  const bool has_set = pattern.find('[') != std::string::npos;
  return glob_expression(pattern) + (has_set ? "|" + escaped(pattern) : "");
}

std::string name_expression(const std::string& pattern) {
  return pattern.starts_with(expression_prefix) ? pattern.substr(expression_prefix.size()) : escaped(pattern);
}

[[noreturn]] void refuse_expression(const std::string& pattern, const std::string& reason, std::string_view example) {
  throw Error(Code::usage, "'" + printable(pattern) + "' is not a pattern: " + printable(reason),
              "write an RE2 regular expression for the whole name: '" + std::string(example) + "'",
              {.stage = "command line"});
}

[[noreturn]] void refuse_size(std::size_t patterns) {
  throw Error(Code::usage, counted(patterns, "pattern") + " in one option need too much memory",
              "use fewer or shorter patterns", {.stage = "command line"});
}

}  // namespace

std::string glob_expression(std::string_view glob) {
  std::string expression;
  for (const std::string_view segment : path_segments(glob)) {
    // Each segment includes the dot before it. No segment of a name is empty, so only the first one has no dot.
    expression += segment == "**" ? "(?:(?:\\A|\\.)[^.]+)*" : "(?:\\A|\\.)" + segment_expression(segment);
  }
  return expression;
}

struct Patterns::Compiled {
  re2::RE2::Set set{expression_options(), re2::RE2::ANCHOR_BOTH};
  std::size_t count = 0;

  template <class Expression>
  static std::shared_ptr<const Compiled> of(const std::vector<std::string>& patterns, const Expression& expression_of,
                                            std::string_view example) {
    auto compiled = std::make_shared<Compiled>();
    for (const std::string& pattern : patterns) {
      std::string reason;
      if (compiled->set.Add(expression_of(pattern), &reason) < 0) refuse_expression(pattern, reason, example);
    }
    compiled->count = patterns.size();
    if (!compiled->set.Compile()) refuse_size(patterns.size());
    return compiled;
  }

  bool match(std::string_view name, std::vector<int>* which) const {
    if (count == 0) return false;
    const std::string shown_name = is_utf8(name) ? "" : printable(name);
    re2::RE2::Set::ErrorInfo error{};
    const bool found = set.Match(shown_name.empty() ? name : std::string_view(shown_name), which, &error);
    if (error.kind == re2::RE2::Set::kOutOfMemory) refuse_size(count);
    return found;
  }
};

Patterns Patterns::of_paths(const std::vector<std::string>& patterns) {
  return Patterns(Compiled::of(patterns, path_expression, "re:encoder\\.layer\\.\\d+"));
}

Patterns Patterns::of_names(const std::vector<std::string>& patterns, std::string_view example) {
  return Patterns(Compiled::of(patterns, name_expression, example));
}

bool Patterns::match(std::string_view name) const { return compiled_->match(name, nullptr); }

std::vector<std::size_t> Patterns::matching(std::string_view name) const {
  std::vector<int> which;
  compiled_->match(name, &which);
  std::ranges::sort(which);
  return {which.begin(), which.end()};
}

std::vector<std::string> split_patterns(std::string_view list) {
  const std::size_t begin = list.starts_with(expression_prefix) ? 0 : list.find("," + std::string(expression_prefix));
  if (begin == std::string_view::npos) return split(list, ',');
  std::vector<std::string> patterns = split(list.substr(0, begin), ',');
  patterns.emplace_back(list.substr(begin == 0 ? 0 : begin + 1));
  return patterns;
}

}  // namespace whence::text
