// Paths as places on the disk, to see whether two names are one file.
#pragma once

#include <string>

namespace whence {

// Absolute, links followed; the file need not exist. Empty for an empty path, and where the disk cannot be asked.
std::string place_of(const std::string& path);

// True if both paths name one place, or one file by two hard links. An empty path names nothing.
bool same_file(const std::string& first, const std::string& second);

}  // namespace whence
