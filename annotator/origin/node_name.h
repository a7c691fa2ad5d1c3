// Names that annotate gives nodes: "/encoder/layer.0/MatMul"; "/encoder/~/Where" where the module is only known to hold
// the node's own, so that a name that outlives the metadata does not claim more than that did.
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
  bool below = false;     // a module below it may be meant
};

// All before a node's operator.
inline NamePath path_in_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return {};
  NamePath found{name.substr(0, slash)};
  found.below = found.path.ends_with(below_mark);
  if (found.below) found.path.remove_suffix(below_mark.size());
  return found;
}

}  // namespace whence::origin
