// The metadata keys on a model that identify the program of its nodes' keys.
#pragma once

#include <string_view>

namespace whence::origin::keys {

// Operations that were computed during the export and have no node of their own: "0-5,9", indices as in `op`.
inline constexpr std::string_view folded = "pkg.whence.folded";
inline constexpr std::string_view program = "pkg.whence.program";          // program_digest() of the exported program
inline constexpr std::string_view constraints = "pkg.whence.constraints";  // JSON array of conditions like "n != 1"
inline constexpr std::string_view matched = "pkg.whence.matched";  // program_digest() of a foreign file's sidecar
// Values of `matched` without a program: a prefix and the digest of the file that was given, or only names.
inline constexpr std::string_view file_before = "file:", weights = "weights:", own_names = "names";
// program_digest() of the program that `op` on the nodes refers to, if it came from the tool's input and neither
// `program` nor `matched` has it.
inline constexpr std::string_view stamped = "pkg.whence.stamped";

}  // namespace whence::origin::keys
