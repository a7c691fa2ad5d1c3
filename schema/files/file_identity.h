// FileIdentity: tells whether a name still leads to the file that it led to before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sys/stat.h>

namespace whence {

// Inode numbers are used again, so that size and time of the last change belong to it. Links and new names of a file
// leave it as it is.
struct FileIdentity {
  std::uint64_t inode = 0, size = 0, seconds = 0, nanoseconds = 0;

  explicit FileIdentity(const struct stat& status)
      : inode(status.st_ino),
        size(static_cast<std::uint64_t>(status.st_size)),
        seconds(static_cast<std::uint64_t>(status.st_mtim.tv_sec)),
        nanoseconds(static_cast<std::uint64_t>(status.st_mtim.tv_nsec)) {}
  FileIdentity() = default;
  bool operator==(const FileIdentity&) const = default;

  // None if there is no regular file under this name.
  static std::optional<FileIdentity> of(const std::string& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    return FileIdentity(status);
  }
};

}  // namespace whence
