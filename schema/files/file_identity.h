// FileIdentity: detects whether a path still refers to the same, unchanged file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sys/stat.h>

namespace whence {

// Includes size and modification time because inode numbers are reused. Linking and renaming a file keep its identity.
struct FileIdentity {
  std::uint64_t inode = 0, size = 0, seconds = 0, nanoseconds = 0;

  explicit FileIdentity(const struct stat& status)
      : inode(status.st_ino),
        size(static_cast<std::uint64_t>(status.st_size)),
        seconds(static_cast<std::uint64_t>(status.st_mtim.tv_sec)),
        nanoseconds(static_cast<std::uint64_t>(status.st_mtim.tv_nsec)) {}
  FileIdentity() = default;
  bool operator==(const FileIdentity&) const = default;

  // Returns nullopt if the path is not a regular file.
  static std::optional<FileIdentity> of(const std::string& path) {
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    return FileIdentity(status);
  }
};

}  // namespace whence
