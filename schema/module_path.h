// Qualified names as places in the module tree: compared by whole segments, never by substring. The root is "".
#pragma once

#include <string>
#include <string_view>

namespace whence {

// True when `path` is `module` or names something within it: "a.b" is at or below "a", "ab" is not.
inline bool at_or_below(std::string_view path, std::string_view module) {
  return module.empty() || path == module || (path.starts_with(module) && path[module.size()] == '.');
}

// Returns the module that holds `path`: "a.b" of "a.b.c", "" of "a" and of the root.
inline std::string_view module_around(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

// Returns the last segment: "c" of "a.b.c", "Linear" of "torch.nn.modules.linear.Linear".
inline std::string last_segment(std::string_view path) { return std::string(path.substr(path.rfind('.') + 1)); }

// Returns the name of `name` in the module `path`: "a.b" of "b" in "a".
inline std::string joined_path(std::string_view path, std::string_view name) {
  std::string joined(path);
  if (!path.empty()) joined += '.';
  return joined.append(name);
}

}  // namespace whence
