// What the recorder of live C++ modules leaves in a TorchScript archive for the reader of archives.
#pragma once

#include <string_view>

namespace whence {

// The last line of an operation's source text, when its module was inferred.
inline constexpr std::string_view inferred_mark = "<module inferred>";
// A file of the archive beside the program; it is there when the archive was made of a live C++ module.
inline constexpr const char* live_file = "whence_live";

}  // namespace whence
