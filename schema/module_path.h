// Qualified names as places in the module tree: compared by whole segments, never by substring. The root is "".
#pragma once

#include <string_view>

namespace whence {

// True when `path` is `module` or names something within it: "a.b" is at or below "a", "ab" is not.
inline bool at_or_below(std::string_view path, std::string_view module) {
  return module.empty() || path == module || (path.starts_with(module) && path[module.size()] == '.');
}

}  // namespace whence
