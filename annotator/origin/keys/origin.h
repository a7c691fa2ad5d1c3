// The essential metadata keys for the origin of a node. Many files include this; further keys of nodes are in node.h.
#pragma once

#include <string_view>

namespace whence::origin::keys {

// The stamp that export writes: "17" (own), "fused:17,18", "shared:3,9", indices of recorded operations.
inline constexpr std::string_view op = "pkg.whence.op";
inline constexpr std::string_view module = "pkg.whence.module";
inline constexpr std::string_view confidence = "pkg.whence.confidence";

}  // namespace whence::origin::keys
