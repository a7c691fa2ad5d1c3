// The metadata keys on a model that say which program its nodes' keys are of.
#pragma once

#include <string_view>

namespace whence::origin::keys {

// Operations that were computed while exporting, so that no node is left of their own: "0-5,9", indices as in `op`.
inline constexpr std::string_view folded = "pkg.whence.folded";
inline constexpr std::string_view program = "pkg.whence.program";          // program_digest() of what was exported
inline constexpr std::string_view constraints = "pkg.whence.constraints";  // JSON array of "n != 1": it holds there
inline constexpr std::string_view matched = "pkg.whence.matched";  // program_digest() of the sidecar of a foreign file
// Values of it that are not a program's digest: this and the digest of the file that was given, or the names alone.
inline constexpr std::string_view file_before = "file:", weights = "weights:", own_names = "names";
// program_digest() of the program whose operations `op` on the nodes names, where the file before a tool said them and
// neither of the two above does.
inline constexpr std::string_view stamped = "pkg.whence.stamped";

}  // namespace whence::origin::keys
