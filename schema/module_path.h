// Qualified names in the module tree, compared by complete segments. The root is "".
#pragma once

#include <string>
#include <string_view>

namespace whence {

// Returns true if `path` is `module` or below it: "a.b" is below "a", "ab" is not.
inline bool at_or_below(std::string_view path, std::string_view module) {
  return module.empty() || path == module || (path.starts_with(module) && path[module.size()] == '.');
}

// Returns the parent of `path`: "a.b" for "a.b.c", "" for "a" and for the root.
inline std::string_view module_around(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

// Returns the last segment: "c" for "a.b.c", "Linear" for "torch.nn.modules.linear.Linear".
inline std::string last_segment(std::string_view path) { return std::string(path.substr(path.rfind('.') + 1)); }

// Returns the qualified name of `name` in the module `path`: "a.b" for "b" in "a".
inline std::string joined_path(std::string_view path, std::string_view name) {
  std::string joined(path);
  if (!path.empty()) joined += '.';
  return joined.append(name);
}

}  // namespace whence
