#include "annotator/profile/tensorrt_names.h"

#include <algorithm>
#include <array>
#include <utility>

#include <re2/re2.h>

namespace whence::profile {
namespace {

constexpr std::string_view pointwise = "PWN(", region_begin = "{ForeignNode[", region_end = "]}", ends_between = "...";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

bool is_open(char c) { return c == '(' || c == '[' || c == '{'; }
bool is_close(char c) { return c == ')' || c == ']' || c == '}'; }

// Returns the parts between separators outside brackets.
std::vector<std::string_view> parts_of(std::string_view text) {
  constexpr std::array<std::string_view, 3> separators = {" + ", " || ", ", "};
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_open(text[i])) ++depth;
    if (is_close(text[i])) --depth;
    if (depth > 0) continue;
    for (const std::string_view separator : separators) {
      if (!text.substr(i).starts_with(separator)) continue;
      parts.push_back(text.substr(begin, i - begin));
      i += separator.size() - 1;
      begin = i + 1;
      break;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// Removes "PWN(" and ")"; some versions write "PWN(a, b" without the end.
std::string_view without_pointwise(std::string_view name) {
  name.remove_prefix(pointwise.size());
  if (name.ends_with(')')) name.remove_suffix(1);
  return name;
}

// Returns "X" for "Reformatting CopyNode for Input Tensor 0 to X" and for "X copy"; other names unchanged.
std::string_view copied_name(std::string_view name) {
  if (name.starts_with("Reformatting CopyNode for ")) {
    constexpr std::string_view to = " to ";
    const std::size_t at = name.find(to);
    return at == std::string_view::npos ? "" : trimmed(name.substr(at + to.size()));
  }
  return name.ends_with(" copy") ? name.substr(0, name.size() - 5) : name;
}

// Adds "a" for "a_myl109_2".
void add_name(std::string_view text, HeldNodes& to) {
  static const re2::RE2 myelin_number("_myl[0-9]+_[0-9]+$", re2::RE2::Latin1);
  std::string name(copied_name(text));
  re2::RE2::Replace(&name, myelin_number, "");
  const bool own = name.empty() || name.starts_with("__myl_") || name.starts_with("(Unnamed Layer*");
  if (!own) to.names.push_back(std::move(name));
}

void add_region(std::string_view name, HeldNodes& to) {
  name.remove_prefix(region_begin.size());
  if (name.ends_with(region_end)) name.remove_suffix(region_end.size());
  const std::size_t between = name.find(ends_between);
  const std::string_view last = between == std::string_view::npos ? name : name.substr(between + ends_between.size());
  const std::string_view first = between == std::string_view::npos ? name : name.substr(0, between);
  // An end may be a fused layer itself: "Transpose_2 + (Unnamed Layer* 7) [Shuffle]".
  to.regions.emplace_back(trimmed(parts_of(first).front()), trimmed(parts_of(last).front()));
}

}  // namespace

HeldNodes nodes_of_tensorrt_name(std::string_view name) {
  HeldNodes holds;
  std::vector<std::string_view> open = {trimmed(copied_name(trimmed(name)))};
  while (!open.empty()) {
    const std::string_view text = trimmed(open.back());
    open.pop_back();
    const std::vector<std::string_view> parts = parts_of(text);
    if (parts.size() > 1) {
      open.insert(open.end(), parts.rbegin(), parts.rend());
    } else if (text.starts_with(pointwise)) {
      open.push_back(without_pointwise(text));
    } else if (text.starts_with(region_begin)) {
      add_region(text, holds);
    } else {
      add_name(text, holds);
    }
  }
  return holds;
}

HeldNodes nodes_of_tensorrt_metadata(std::string_view metadata) {
  constexpr std::string_view mark = "[ONNX Layer: ", separators = "\x1f\x1e", cut = " ... ";
  HeldNodes holds;
  while (!metadata.empty()) {
    const std::size_t end = std::min(metadata.find_first_of(separators), metadata.size());
    std::string_view entry = metadata.substr(0, end);
    metadata.remove_prefix(std::min(end + 1, metadata.size()));
    if (entry.empty()) continue;
    if (!entry.starts_with(mark) || !entry.ends_with(']') || entry.find(cut) != std::string_view::npos) {
      holds.cut = true;
      continue;
    }
    entry = entry.substr(mark.size(), entry.size() - mark.size() - 1);
    const std::string_view name = entry.substr(0, entry.find(" | "));
    if (std::ranges::find(holds.names, name) == holds.names.end()) holds.names.emplace_back(name);
  }
  return holds;
}

}  // namespace whence::profile
