// Splits a qualified name into its segments.
#pragma once

#include <string_view>
#include <vector>

namespace whence::text {

// Returns {"layer", "0"} for "layer.0", and no segment for the root. The segments are views into `path`.
inline std::vector<std::string_view> path_segments(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('.'), path.size());
    parts.push_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return parts;
}

}  // namespace whence::text
