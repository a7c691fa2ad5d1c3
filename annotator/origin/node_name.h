// Node names that annotate writes: "/encoder/layer.0/MatMul", or "/encoder/~/Where" if only an ancestor of the node's
// module is known, so that a name without metadata claims no more than the metadata did.
#pragma once

#include <string>
#include <string_view>

#include "annotator/origin/confidence.h"

namespace whence::origin {

inline constexpr std::string_view below_mark = "/~";

inline std::string node_name(const std::string& path, std::string_view op_type, Confidence confidence) {
  std::string name = path;
  if (confidence == Confidence::ancestor) name += below_mark;
  return name.append("/").append(op_type);
}

struct NamePath {
  std::string_view path;  // "/encoder/layer.0"
  bool below = false;     // the node may belong to a module below it
};

// Returns the path before the operator in a node's name.
inline NamePath path_in_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return {};
  NamePath found{name.substr(0, slash)};
  found.below = found.path.ends_with(below_mark);
  if (found.below) found.path.remove_suffix(below_mark.size());
  return found;
}

}  // namespace whence::origin
