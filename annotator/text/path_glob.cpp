#include "annotator/text/path_glob.h"

#include <optional>
#include <string>

namespace whence::text {

std::vector<std::string_view> path_segments(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('.'), path.size());
    parts.push_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return parts;
}

namespace {

// The position in the pattern after the part at `p`, if that matches `c`; nullopt if it does not. A bracket that is not
// closed is a character like others.
std::optional<std::size_t> after_match(std::string_view pattern, std::size_t p, char c) {
  if (pattern[p] == '?') return p + 1;
  const std::size_t end = pattern[p] == '[' ? pattern.find(']', p + 2) : std::string_view::npos;
  if (end == std::string_view::npos) return pattern[p] == c ? std::optional(p + 1) : std::nullopt;
  const bool others = pattern[p + 1] == '!';
  bool listed = false;
  for (std::size_t i = p + (others ? 2 : 1); i < end; ++i) {
    const bool range = i + 2 < end && pattern[i + 1] == '-';
    listed |= range ? pattern[i] <= c && c <= pattern[i + 2] : pattern[i] == c;
    if (range) i += 2;
  }
  return listed != others ? std::optional(end + 1) : std::nullopt;
}

bool matches_segment(std::string_view pattern, std::string_view text) {
  // Greedy with one point of return: the last star and how much of the text it had taken.
  std::size_t p = 0, t = 0, star = std::string_view::npos, taken = 0;
  while (t < text.size()) {
    const bool more = p < pattern.size();
    if (more && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (const auto next = more ? after_match(pattern, p, text[t]) : std::nullopt) {
      p = *next;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace

bool matches_path(std::string_view pattern, std::string_view path) {
  const std::vector<std::string_view> want = path_segments(pattern), have = path_segments(path);
  // reachable[i]: the pattern so far matches the first i segments. Linear in the product, whatever the number of `**`.
  std::vector<char> reachable(have.size() + 1, 0);
  reachable[0] = 1;
  for (const std::string_view part : want) {
    std::vector<char> next(have.size() + 1, 0);
    if (part == "**") {
      bool seen = false;
      for (std::size_t i = 0; i <= have.size(); ++i) next[i] = seen = seen || reachable[i];
    } else {
      for (std::size_t i = 0; i < have.size(); ++i) next[i + 1] = reachable[i] && matches_segment(part, have[i]);
    }
    reachable = std::move(next);
  }
  return reachable.back() != 0;
}

}  // namespace whence::text
