// Canonical paths, for deciding whether two paths are the same file.
#pragma once

#include <string>

namespace whence {

// Returns the absolute path with links followed. The file need not exist. Empty for an empty path or after an error.
std::string place_of(const std::string& path);

// Returns true if both paths have the same canonical path or are hard links of one file, and false for an empty path.
bool same_file(const std::string& first, const std::string& second);

}  // namespace whence
